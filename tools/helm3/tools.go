//go:build tools

// Package tools keeps what is built here in go.mod.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
