package transfer

import (
	"testing"

	"pgregory.net/rapid"
)

// TestOwnershipLife goes the normal way: acquired with the first slice, completed with the
// last, released when nothing is in flight.
//
// req: PIPE-15
// req: PIPE-17
func TestOwnershipLife(t *testing.T) {
	var o Ownership
	if o.Acquired() || o.InFlight() {
		t.Error("a new record is acquired, or in flight")
	}
	o.Use() // a pass
	o.Acquire()
	o.Done()
	o.Use() // a slice
	o.Acquire()
	if !o.Acquired() || !o.InFlight() {
		t.Error("with a slice in flight the record is not acquired, or not in flight")
	}
	if !o.Complete() || o.Complete() {
		t.Error("completing is not reported once")
	}
	o.Acquire()
	if o.Complete() {
		t.Error("acquiring again undid the completion")
	}
	if o.Release() {
		t.Error("released with a slice in flight")
	}
	o.Done()
	if !o.Release() || o.Release() {
		t.Error("the release is not reported once")
	}
	if o.Acquired() || o.Complete() {
		t.Error("a released record is acquired, or completes")
	}
}

// TestOwnershipDoneTwice: a use that ends twice would free what another still reads.
//
// req: PIPE-17
func TestOwnershipDoneTwice(t *testing.T) {
	var o Ownership
	o.Use()
	o.Done()
	defer func() {
		if recover() == nil {
			t.Error("a use ended twice and nothing panicked")
		}
	}()
	o.Done()
}

// TestOwnershipReleases at random: once, and never while anything is in flight.
//
// req: PIPE-15
// req: PIPE-17
func TestOwnershipReleases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Ownership
		uses, released := 0, false
		t.Repeat(map[string]func(*rapid.T){
			"use": func(t *rapid.T) {
				if released {
					t.Skip("nobody uses released blocks")
				}
				o.Use()
				uses++
			},
			"done": func(t *rapid.T) {
				if uses == 0 {
					t.Skip("nothing is in use")
				}
				o.Done()
				uses--
			},
			"acquire":  func(*rapid.T) { o.Acquire() },
			"complete": func(*rapid.T) { o.Complete() },
			"release": func(t *rapid.T) {
				got := o.Release()
				if got != (uses == 0 && !released) {
					t.Fatalf("release gave %v with %d uses, released %v", got, uses, released)
				}
				released = released || got
			},
			"": func(t *rapid.T) {
				if o.InFlight() != (uses > 0) {
					t.Fatalf("in flight is %v with %d uses", o.InFlight(), uses)
				}
			},
		})
	})
}

// What was taken back is acquired again by its next slice, or still by those that have left; it
// completes once more, and what is released stays so.
//
// req: PIPE-15
// req: PIPE-35
func TestReopen(t *testing.T) {
	var o Ownership
	o.Acquire()
	if !o.Complete() {
		t.Fatal("the record did not complete")
	}
	o.Reopen(true)
	if !o.Acquired() || !o.Complete() {
		t.Error("with a slice sent the record is no longer acquired, or complete for good")
	}
	o.Reopen(false)
	if o.Acquired() {
		t.Error("with nothing sent the record is still acquired")
	}
	if !o.Release() {
		t.Fatal("the blocks are not released")
	}
	for _, sent := range []bool{false, true} {
		if o.Reopen(sent); o.Acquired() || o.Release() {
			t.Error("what was released is open again")
		}
	}
}
