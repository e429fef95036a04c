package transfer

import (
	"kvferry/kvcache"
	"kvferry/wire"
)

// PartBytes is a good SendConfig.PartBytes: a part takes an acknowledgement and a turn of the
// sender's loop, which are nothing beside the time that a link of a gigabit needs for so much.
const PartBytes = 256 << 10

// chunkStarted looks whether the chunk will make a slice due, which may then leave in parts. What
// a slice spans is known before its chunk is computed: a part brings the same blocks as the rest
// of it, only some layers of them sooner.
func (s *Send) chunkStarted(ev ChunkStarted) {
	s.making, s.through = nil, 0
	if s.cfg.PartBytes == 0 || !s.cfg.Pipelined || s.err != nil {
		return
	}
	s.making = s.sliceOf(ev.Chunk, ev.Tables)
}

// Parts reports whether the chunk that is being computed makes a slice that may leave in parts:
// otherwise LayersComputed changes nothing.
func (s *Send) Parts() bool { return s.making != nil }

func (s *Send) layersComputed(now int64, ev LayersComputed) {
	s.through = min(ev.Through, layersOf(s.cfg.Layout))
	s.dispatchMaking(now)
}

// dispatchMaking posts what is due of the slice in the making. With its first part it counts as a
// slice, and the blocks are held for the transfer (PIPE-15). What is read is announced whole.
func (s *Send) dispatchMaking(now int64) {
	sl := s.making
	if sl == nil || s.reg == nil || s.err != nil || s.announces() || !s.planned(sl) {
		return
	}
	if !sl.left() {
		due := false
		for w := range s.ranks.Writers() {
			due = due || s.partDue(sl, w, 0)
		}
		if !due {
			return
		}
		s.own.Acquire()
		s.append(sl)
		s.launch(len(s.slices) - 1)
	}
	s.flow(now, len(s.slices)-1)
}

// partDue reports whether a rank has enough of the slice in the making to write, from a layer on.
func (s *Send) partDue(sl *slice, w, from int) bool {
	layers := kvcache.Span{Start: from, End: s.through}
	return s.ranks.partBytes(w, s.early(sl, w, layers), layers) >= uint64(s.cfg.PartBytes)
}

// early is what a rank can write of some layers before the chunk is computed: no state, which has
// its value when all tokens have gone through it (PIPE-31).
func (s *Send) early(sl *slice, w int, layers kvcache.Span) []GroupCopy {
	var out []GroupCopy
	for _, c := range sl.plan {
		if !s.cfg.Layout.Groups[c.Group].Recurrent() && len(s.ranks.Part(w, c.Group, layers)) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// partLanded lets the rest of a slice leave, if it waited for that, and lets the receiver know,
// which hears nothing of parts, that something moves.
func (s *Send) partLanded(now int64, i int) {
	if s.err != nil {
		return
	}
	if now-s.progress >= s.cfg.Timeout/3 {
		s.progress = now
		s.emit(Notify{Peer: s.peer, Msg: &wire.Progress{Request: s.cfg.Request, Task: s.reg.Task, Epoch: s.reg.Epoch}})
	}
	s.flow(now, i)
}
