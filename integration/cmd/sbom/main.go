// SPDX-License-Identifier: Apache-2.0

// Command sbom writes of what a program consists, as CycloneDX in JSON. The release runs it for each program.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/kube-eventbridge/kube-eventbridge/integration/bom"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

func main() {
	var o bom.Options
	var out string
	var created int64
	flag.StringVar(&o.Program, "program", "", "the program's file")
	flag.StringVar(&o.Version, "version", "", "its version")
	flag.Int64Var(&created, "created", 0, "the time of the document, in seconds since 1970")
	flag.StringVar(&out, "out", "", "the file to write")
	flag.Parse()
	o.Created = time.Unix(created, 0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o bom.Options, out string) (err error) {
	if o.Root, err = controlplane.Root(); err != nil {
		return err
	}
	doc, err := bom.Read(ctx, o)
	if err != nil {
		return err
	}
	file, err := os.Create(out) //nolint:gosec // the file that was asked for
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.EncodeVersion(doc, cdx.SpecVersion1_6); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", out, err)
	}
	return file.Close()
}
