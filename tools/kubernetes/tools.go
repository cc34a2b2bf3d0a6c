//go:build tools

// Package tools names the programs that `cargo xtask kubernetes` builds, so that `go mod tidy`
// keeps what they need in go.mod and go.sum.
package tools

import (
	_ "go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubectl/pkg/cmd"
)
