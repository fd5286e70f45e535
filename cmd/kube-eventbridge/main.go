// SPDX-License-Identifier: Apache-2.0

// Command kube-eventbridge publishes every change in a Kubernetes cluster as a CloudEvent. It exits with 0 when it is
// done, with 1 when it failed, with 2 when the command line or the configuration has to be written differently, and
// with 128+n when the second of two signals, number n, cut it short.
package main

import (
	"os"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli"
)

// Set by the linker: -X main.version=… -X main.commit=….
var version, commit string

func main() { os.Exit(cli.Main(version, commit)) }
