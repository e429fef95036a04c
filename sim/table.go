package sim

import "slices"

// table declares the transitions of each machine: where it stands, and what each event makes
// of that. An event that is not named for a phase changes nothing there.
var table = []struct {
	machine, from string
	on            map[string][]string
}{
	{sendMachine, nowhere, map[string][]string{
		"made": {"waiting"},
	}},
	// Nothing computed that could leave, and nobody to take it.
	{sendMachine, "waiting", map[string][]string{
		"pass":        {"waiting"},
		"layers":      {"waiting"},
		"chunk":       {"waiting", "held"},
		"last chunk":  {"offered"},
		"pass failed": {"released"},
		"register":    {"registered", "flowing", "draining", "released"}, // it fits, or does not; or layers leave at once
		"taken back":  {"waiting"},
		"cancel":      {"draining", "released"},
		"given up":    {"draining", "released"},
	}},
	{sendMachine, "registered", map[string][]string{
		"pass":        {"registered"},
		"layers":      {"registered", "flowing"}, // too few bytes, or the first part
		"chunk":       {"registered", "flowing", "released"},
		"last chunk":  {"finishing", "released"},
		"pass failed": {"released"},
		"register":    {"registered"}, // a duplicate
		"withdraw":    {"draining", "released"},
		"peer lost":   {"draining", "released"},
		"taken back":  {"registered"},
		"cancel":      {"draining", "released"},
		"timer":       {"registered"}, // progress
		"given up":    {"draining", "released"},
	}},
	// Slices are due, and nobody to take them.
	{sendMachine, "held", map[string][]string{
		"pass":        {"held"},
		"layers":      {"held"},
		"chunk":       {"held"},
		"last chunk":  {"offered"},
		"pass failed": {"released"},
		"register":    {"flowing", "draining", "released"},
		"taken back":  {"waiting"},
		"cancel":      {"draining", "released"},
		"given up":    {"draining", "released"},
	}},
	{sendMachine, "flowing", map[string][]string{
		"pass":        {"flowing"},
		"layers":      {"flowing"},
		"chunk":       {"flowing"},
		"last chunk":  {"finishing"},
		"pass failed": {"draining", "released"},
		"copied":      {"flowing"},
		"copy failed": {"draining", "released"},
		"register":    {"flowing"},
		"withdraw":    {"draining", "released"},
		"peer lost":   {"draining", "released"},
		"taken back":  {"flowing"},
		"cancel":      {"draining", "released"},
		"timer":       {"flowing", "draining"}, // progress, or a copy that is stuck
		"given up":    {"draining", "released"},
	}},
	// Everything is computed.
	{sendMachine, "offered", map[string][]string{
		"register":   {"finishing", "released"},
		"taken back": {"evicted"},
		"cancel":     {"released"},
		"timer":      {"released"},
		"given up":   {"released"},
	}},
	// Everything was computed, nobody had registered, and the blocks are taken back.
	{sendMachine, "evicted", map[string][]string{
		"register": {"registered", "released"},
		"cancel":   {"released"},
		"timer":    {"released"},
		"given up": {"released"},
	}},
	{sendMachine, "finishing", map[string][]string{
		"copied":      {"finishing", "released"},
		"copy failed": {"draining complete", "released"},
		"register":    {"finishing"},
		"withdraw":    {"draining complete"},
		"peer lost":   {"draining complete", "released"},
		"cancel":      {"draining complete", "released"},
		"timer":       {"draining complete"},
		"completed":   {"released"},
		"expired":     {"released"},
		"given up":    {"released"},
	}},
	// The session has failed, and something still reads or writes the blocks.
	{sendMachine, "draining", map[string][]string{
		"layers":      {"draining"},
		"chunk":       {"draining", "released"},
		"last chunk":  {"draining", "draining complete", "released"},
		"pass failed": {"draining", "released"},
		"copied":      {"draining", "released"},
		"copy failed": {"draining", "released"},
		"register":    {"draining"}, // refused
		"withdraw":    {"draining"},
		"cancel":      {"draining"},
	}},
	{sendMachine, "draining complete", map[string][]string{
		"copied":      {"draining complete", "released"},
		"copy failed": {"draining complete", "released"},
		"withdraw":    {"draining complete"},
		"cancel":      {"draining complete"},
	}},

	{receiveMachine, nowhere, map[string][]string{"made": {"connecting"}}},
	{receiveMachine, "connecting", map[string][]string{
		"peer up":     {"posted"},
		"unreachable": {"ended"},
		"timer":       {"ended"},
		"cancel":      {"ended"},
	}},
	{receiveMachine, "posted", map[string][]string{
		"result":    {"posted", "closing", "failing"}, // failing: no correct peer sent it
		"verified":  {"posted", "closing", "failing"},
		"progress":  {"posted"},
		"failure":   {"failing"},
		"end":       {"failing"},
		"peer lost": {"failing"},
		"timer":     {"failing"},
		"cancel":    {"failing"},
	}},
	{receiveMachine, "closing", map[string][]string{
		"revoked": {"ended"},
		"cancel":  {"failing"},
	}},
	{receiveMachine, "failing", map[string][]string{
		"revoked": {"ended", "quarantined"},
		"result":  {"failing"},
		"failure": {"failing"},
		"end":     {"failing"},
		"cancel":  {"failing"},
	}},
	{receiveMachine, "quarantined", map[string][]string{
		"result":    {"quarantined", "ended"},
		"verified":  {"ended"},
		"failure":   {"quarantined"},
		"end":       {"ended"},
		"peer lost": {"ended"},
		"cancel":    {"quarantined"},
	}},

	{offerMachine, nowhere, map[string][]string{
		"made": {"waiting"},
	}},
	{offerMachine, "waiting", map[string][]string{
		"cancel":      {"draining", "released"},
		"chunk":       {"computing"},
		"last chunk":  {"held"},
		"pass":        {"waiting"},
		"pass failed": {"released"},
		"taken back":  {"waiting"},
	}},
	{offerMachine, "computing", map[string][]string{
		"cancel":      {"draining", "released"},
		"chunk":       {"computing"},
		"last chunk":  {"held"},
		"pass":        {"computing"},
		"pass failed": {"released"},
		"taken back":  {"waiting"},
	}},
	{offerMachine, "held", map[string][]string{
		"cancel":    {"released"},
		"completed": {"released"},
		"expired":   {"released"},
		"given up":  {"released"},
	}},
	{offerMachine, "draining", map[string][]string{
		"chunk":       {"released"}, // a pass was all that it waited for
		"last chunk":  {"released"},
		"pass failed": {"released"},
	}},

	{pullMachine, nowhere, map[string][]string{
		"made": {"connecting"},
	}},
	{pullMachine, "connecting", map[string][]string{
		"cancel":      {"ended"},
		"ready":       {"ended", "reading", "waiting"},
		"timer":       {"ended"},
		"unreachable": {"ended"},
	}},
	{pullMachine, "waiting", map[string][]string{
		"announced":      {"reading"},
		"cancel":         {"ended"},
		"end":            {"ended"},
		"last announced": {"ended", "reading"},
		"peer lost":      {"ended"},
		"progress":       {"waiting"},
		"timer":          {"ended"},
	}},
	{pullMachine, "reading", map[string][]string{
		"announced":      {"reading"},
		"cancel":         {"draining", "ended"},
		"end":            {"draining", "ended"},
		"last announced": {"ended", "reading"},
		"peer lost":      {"draining", "ended"},
		"progress":       {"reading"},
		"read":           {"reading", "verifying"},
		"read failed":    {"draining", "ended"},
		"refused":        {"draining"},
		"timer":          {"draining", "ended"},
	}},
	{pullMachine, "verifying", map[string][]string{
		"cancel":           {"ended"},
		"end":              {"ended"},
		"peer lost":        {"ended"},
		"refused":          {"ended"},
		"slot read":        {"ended", "verifying"},
		"slot read failed": {"ended"},
		"timer":            {"ended"},
	}},
	{pullMachine, "draining", map[string][]string{
		"cancel":      {"draining"},
		"read":        {"draining", "ended"},
		"read failed": {"draining", "ended"},
	}},

	// What an engine notes of leases.
	{leaseMachine, nowhere, map[string][]string{
		"renewed":                       {nowhere},
		"expired":                       {nowhere},
		"complete ignored":              {nowhere},
		"load failed, bad handle":       {nowhere},
		"load failed, cancelled":        {nowhere},
		"load failed, earlier life":     {nowhere},
		"load failed, lapsed":           {nowhere},
		"load failed, no slot":          {nowhere},
		"load failed, other":            {nowhere},
		"load failed, peer lost":        {nowhere},
		"load failed, refused":          {nowhere},
		"load failed, slot read failed": {nowhere},
		"load failed, timeout":          {nowhere},
		"turn pulled":                   {nowhere},
		"turn missed, bad handle":       {nowhere},
		"turn missed, cancelled":        {nowhere},
		"turn missed, expired":          {nowhere},
		"turn missed, lapsed":           {nowhere},
		"turn missed, other prompt":     {nowhere},
		"turn missed, peer lost":        {nowhere},
		"turn missed, timeout":          {nowhere},
	}},

	{requestMachine, nowhere, map[string][]string{"": {"waiting", "prefilling", "receiving"}}},
	{requestMachine, "waiting", map[string][]string{"": {"prefilling", "receiving", "gone"}}},
	{requestMachine, "receiving", map[string][]string{"": {"decoding", "prefilling", "waiting", "ended", "gone"}}},
	{requestMachine, "prefilling", map[string][]string{"": {"decoding", "computed", "evicted", "waiting", "ended", "gone"}}},
	{requestMachine, "computed", map[string][]string{"": {"evicted", "ended", "gone"}}},
	{requestMachine, "evicted", map[string][]string{"": {"waiting", "prefilling", "gone"}}},
	{requestMachine, "decoding", map[string][]string{"": {"waiting", "ended", "gone"}}},
	{requestMachine, "ended", map[string][]string{"": {"gone"}}},
}

// Transitions are all the declared transitions.
func Transitions() []Transition {
	var out []Transition
	for _, row := range table {
		for event, tos := range row.on {
			for _, to := range tos {
				out = append(out, Transition{row.machine, row.from, event, to})
			}
		}
	}
	slices.SortFunc(out, Transition.compare)
	return out
}
