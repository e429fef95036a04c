// Package models embeds the model that makes the first command work offline.
// Its recipe is in the folder tiny.
package models

import _ "embed"

// TinyName is the embedded model's name in the API.
const TinyName = "kvferry-tiny"

// Tiny is the embedded model as a GGUF file.
//
//go:embed kvferry-tiny.gguf
var Tiny []byte
