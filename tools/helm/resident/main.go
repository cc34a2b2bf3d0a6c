// Package main is the helm program kept running: it takes one command a line (a JSON array of arguments) and
// answers each with one line of JSON. Comparing many charts is several times faster so, because most of the
// time of a short helm command is the start of its process.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

// Every command leaves something behind in the process (cobra keeps each initializer); whoever asks starts
// another process after so many.
const maxCommands = 500

type answer struct {
	// Out and Err are base64: what a chart prints need not be UTF-8.
	Out  string `json:"out"`
	Err  string `json:"err"`
	Code int    `json:"code"`
}

func main() {
	kube.ManagedFieldsManager = "helm"
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	// What helm prints past the writers that it is given must not come between the answers.
	os.Stdout = os.Stderr
	for range maxCommands {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var args []string
		if err := json.Unmarshal(line, &args); err != nil {
			os.Exit(2)
		}
		if err := out.Encode(run(args)); err != nil {
			return
		}
	}
}

func run(args []string) answer {
	var stdout, stderr bytes.Buffer
	code := 0
	cmd, err := helmcmd.NewRootCmd(&stdout, args, helmcmd.SetupLogging)
	if err == nil {
		cmd.SetArgs(args)
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		err = cmd.Execute()
	}
	if err != nil {
		code = 1
	}
	encode := base64.StdEncoding.EncodeToString
	return answer{Out: encode(stdout.Bytes()), Err: encode(stderr.Bytes()), Code: code}
}
