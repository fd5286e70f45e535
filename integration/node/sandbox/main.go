// SPDX-License-Identifier: Apache-2.0

// Command sandbox holds the namespaces of a Pod open, until it is told to end. It is the program of the image that
// kubelets call pause.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
}
