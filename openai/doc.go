// Package openai is the OpenAI-compatible API as data: requests decoded strictly into one
// form, the error body, the response and stream types, and server-sent events over plain
// readers and writers. It serves nothing and knows no model.
//
// Functions that decode a client's words return *Error and not error, since whatever is
// wrong has a status and mostly a parameter's name. Do not put such a result into a variable
// of type error before comparing it with nil.
package openai
