// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// base is what each demo has: programs, a directory, and what processes print.
type base struct {
	screen   *screen
	dir      string
	binaries string // the directory of the control plane's programs
	program  string
	files    []*os.File
}

// prepare builds what is missing.
func prepare(ctx context.Context, s *screen) (*base, error) {
	s.heading("Getting ready")
	binaries, err := controlplane.Binaries(ctx, s)
	if err != nil {
		return nil, err
	}
	var program string
	s.say("  building kube-eventbridge (about a minute the first time) …")
	if err := s.slowly("building kube-eventbridge", func() (err error) {
		program, err = rig.Program(ctx, nil)
		return err
	}); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kube-eventbridge-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	return &base{screen: s, dir: dir, binaries: binaries, program: program}, nil
}

// create opens a file for what a process prints; what an earlier one printed stays.
func (b *base) create(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(b.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	b.files = append(b.files, f)
	return f, nil
}

func (b *base) closeFiles() (err error) {
	for _, f := range b.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
