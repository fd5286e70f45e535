// SPDX-License-Identifier: Apache-2.0

// Command kube-eventbridge publishes every change in a Kubernetes cluster as a CloudEvent. It exits with 0 when it is done, with
// 1 when it failed, with 2 when the command line or the configuration has to be written differently, and with 128+n
// when the second of two signals, number n, cut it short.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() { os.Exit(runMain()) }

func runMain() int {
	ctx, stop := notifyContext(context.Background(), func(code int) {
		fmt.Fprintln(os.Stderr, "kube-eventbridge: a second signal ends it at once; what was under way is found out by the next start")
		os.Exit(code)
	})
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a write fails instead, and what was read is drained
	return execute(ctx, os.Args[1:], &streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Klog: klog.SetSlogLogger, Hangups: hangups})
}
