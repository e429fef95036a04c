package config

import "strings"

// suggestKey ends the message about an unknown key: where the key belongs, or which one was
// meant.
func suggestKey(section, name string) string {
	var siblings []string
	for _, k := range keys {
		in, n := parent(k.path)
		if in == section {
			siblings = append(siblings, n)
		}
	}
	if s := nearest(name, siblings); s != "" {
		return ": did you mean " + s + "?"
	}
	if home := homeOf(section, name); home != "" {
		return ": it belongs in " + home
	}
	return ""
}

// homeOf is the section below or above where a key of that name exists.
func homeOf(section, name string) string {
	for _, k := range keys {
		in, n := parent(k.path)
		if n == name && (within(in, section) || within(section, in)) {
			if in == "" {
				return "the top level"
			}
			return in
		}
	}
	return ""
}

// within tells whether path is section or something in it.
func within(path, section string) bool {
	rest, ok := strings.CutPrefix(path, section)
	return section == "" || ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// suggestWord ends the message about a value that is none of the words.
func suggestWord(got string, words []string) string {
	if s := nearest(got, words); s != "" {
		return "; did you mean " + s + "?"
	}
	return ""
}

// nearest is the word that a typing mistake may have made into got, or none.
func nearest(got string, words []string) string {
	best, most := "", max(1, min(3, len(got)/3))
	for _, w := range words {
		if d := distance(fold(got), fold(w)); d <= most {
			best, most = w, d-1
		}
	}
	return best
}

// fold makes letters and separators that are often taken for each other equal.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '-' || c == ' ':
			b[i] = '_'
		}
	}
	return string(b)
}

// distance counts the letters to insert, delete, change or swap with a neighbour that make a
// into b.
func distance(a, b string) int {
	before, last := []int{}, make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+btoi(a[i] != b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
