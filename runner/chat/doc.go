// Package chat turns a chat's messages into a prompt's tokens by the Jinja template that a model
// file carries. Both templates and messages come from strangers: a template can neither read
// anything nor run for long, and what a message says never becomes a control token.
//
// # What messages say stays text
//
// A template writes control tokens as text, such as <|im_start|>, into one string with the
// messages, where nobody could tell who wrote what. So marks go into the messages before: a
// character that is in neither the messages nor the template is put inside whatever in a message is
// a control token's text, and at a message's ends where what it says could be a part of one
// together with what stands beside it. Other messages are handed over as they are, so that
// templates which trim, split or compare them work. Of the rendered text, only what is a control
// token without a mark becomes one. What lies between two of them is cleared of marks and
// tokenised as a whole, and so has the tokens that any text has. Left is a template that cuts a
// message apart and puts the parts beside others with nothing in between, or that cuts one
// character off a message which begins with a control token of one character.
//
// # What bounds a template
//
// The template's source is rewritten before it is compiled: text becomes string constants, trimmed
// here as Jinja trims it, and calls of the guard go into every loop, macro and assignment. It stops
// what takes too many steps or too long, nests too deep or makes too much text. There is no
// statement that reads a file or another template.
package chat
