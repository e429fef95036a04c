package wire

import "strings"

// modelMismatch says in what two models' identities differ. An identity may be a list of parts,
// "name value, name value": of two with the same names, the first part that differs is named, so
// that nobody has to compare long texts. // case: 15
func modelMismatch(ours, theirs string) *MismatchError {
	whole := &MismatchError{Field: "model", Ours: ours, Theirs: theirs}
	a, b := strings.Split(ours, ", "), strings.Split(theirs, ", ")
	if len(a) != len(b) {
		return whole
	}
	var first *MismatchError
	for i := range a {
		name, our := part(a[i])
		other, their := part(b[i])
		switch {
		case name != other || name == "":
			return whole
		case our != their && first == nil:
			first = &MismatchError{Field: "model's " + name, Ours: our, Theirs: their}
		}
	}
	if first == nil {
		return whole
	}
	return first
}

// part takes a part apart; its value has no space.
func part(s string) (name, value string) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+1:]
}
