// Package lease decides how long a prefill engine holds a finished prompt's blocks, and who
// may claim them: Table is the granter's side, Renewals the reader's, Slots the memory that a
// reader proves its read by, Offset what is known of a peer's clock. All are pure: time is handed
// in, in nanoseconds of a clock of the caller's, they have one owner, no locks, and do no IO.
package lease
