package engine

import "bytes"

// stopper looks for stop strings in an answer's text, and holds back text that may be the
// beginning of one.
type stopper struct {
	stops [][]byte
	held  []byte
}

func newStopper(stops []string) stopper {
	var s stopper
	for _, t := range stops {
		s.stops = append(s.stops, []byte(t))
	}
	return s
}

// push adds text and gives what can be shown. If a stop string is complete, stopped is true,
// the text before it is given, and the rest is dropped.
func (s *stopper) push(text []byte) (show []byte, stopped bool) {
	s.held = append(s.held, text...)
	if at := s.find(); at >= 0 {
		show, s.held = s.held[:at], nil
		return show, true
	}
	keep := s.partial()
	cut := len(s.held) - keep
	show = append([]byte(nil), s.held[:cut]...)
	s.held = append([]byte(nil), s.held[cut:]...)
	return show, false
}

// rest gives what was held back, when the answer ended for another reason.
func (s *stopper) rest() []byte {
	show := s.held
	s.held = nil
	return show
}

// find is where the earliest complete stop string begins, or -1.
func (s *stopper) find() int {
	first := -1
	for _, stop := range s.stops {
		if at := bytes.Index(s.held, stop); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// partial is the length of the longest end of the text that begins a stop string.
func (s *stopper) partial() int {
	longest := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > longest; n-- {
			if bytes.HasSuffix(s.held, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}
