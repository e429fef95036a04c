//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kitVersion is what both sides must speak beyond the wire's version: the layout of doors and
// records.
const kitVersion = 1

// The most that a kit may name. A message has at most 253 descriptors: the door's and the bell's
// come first.
const (
	maxMappings = 250
	maxRegions  = 4096
	maxKit      = 12 + 8*maxMappings + kitRegion*maxRegions
	kitRegion   = 20
	kitFiles    = 2
)

// kit says which of the descriptors that come with it are what.
type kit struct {
	mappings []uint64 // sizes in bytes
	regions  []kitRange
}

// kitRange is one region: bytes of a mapping.
type kitRange struct {
	mapping        uint32
	offset, length uint64
}

func (k *kit) append(b []byte) []byte {
	b = le.AppendUint32(b, kitVersion)
	b = le.AppendUint32(b, uint32(len(k.mappings)))
	for _, size := range k.mappings {
		b = le.AppendUint64(b, size)
	}
	b = le.AppendUint32(b, uint32(len(k.regions)))
	for _, r := range k.regions {
		b = le.AppendUint32(b, r.mapping)
		b = le.AppendUint64(b, r.offset)
		b = le.AppendUint64(b, r.length)
	}
	return b
}

// errKit is a kit that is cut off, or goes on after its end.
var errKit = errors.New("the peer's list of regions has not the length that it says")

// decodeKit decodes what append encoded. All regions are within their mappings.
func decodeKit(b []byte) (*kit, error) {
	u32 := func() (v uint32) {
		if len(b) >= 4 {
			v, b = binary.LittleEndian.Uint32(b), b[4:]
			return v
		}
		b = nil
		return 0
	}
	if v := u32(); v != kitVersion {
		return nil, fmt.Errorf("shared memory version is %d here and %d there", kitVersion, v)
	}
	k := &kit{}
	n := u32()
	if n > maxMappings || uint64(len(b)) < 8*uint64(n)+4 {
		return nil, errKit
	}
	for range n {
		k.mappings = append(k.mappings, le.Uint64(b))
		b = b[8:]
	}
	n = u32()
	if n > maxRegions || uint64(len(b)) != kitRegion*uint64(n) {
		return nil, errKit
	}
	for ; len(b) > 0; b = b[kitRegion:] {
		r := kitRange{mapping: le.Uint32(b), offset: le.Uint64(b[4:]), length: le.Uint64(b[12:])}
		if int(r.mapping) >= len(k.mappings) {
			return nil, fmt.Errorf("a region of mapping %d of %d", r.mapping, len(k.mappings))
		}
		if size := k.mappings[r.mapping]; r.offset > size || r.length > size-r.offset {
			return nil, fmt.Errorf("a region of bytes %d+%d of a mapping of %d", r.offset, r.length, size)
		}
		k.regions = append(k.regions, r)
	}
	return k, nil
}
