//go:build tools

// Package tools names the program that `cargo xtask kubernetes` builds, so that `go mod tidy`
// keeps what it needs in go.mod and go.sum.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
