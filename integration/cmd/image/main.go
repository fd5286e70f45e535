// SPDX-License-Identifier: Apache-2.0

// Command image makes the bridge's container image, as an OCI archive and, if asked for, in a registry. It needs no
// container engine. See make image.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	containername "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/image"
)

func main() {
	var o image.Options
	var out, name, push, platforms string
	var created int64
	flag.StringVar(&out, "out", "", "the archive to write")
	flag.StringVar(&name, "name", "", "what engines are to call the image")
	flag.StringVar(&push, "push", "",
		"also push it there, such as registry.example.com/kube-eventbridge:v1, with the credentials of ~/.docker/config.json")
	flag.StringVar(&platforms, "platforms", "", "such as linux/amd64,linux/arm64")
	flag.StringVar(&o.Version, "version", "", "in the program and in a label")
	flag.StringVar(&o.Commit, "commit", "", "in the program and in a label")
	flag.StringVar(&o.Source, "source", "", "where the code is published")
	flag.Int64Var(&created, "created", 0, "the time of everything in the image, in seconds since 1970")
	flag.Parse()
	o.Created, o.Platforms = time.Unix(created, 0), strings.Split(platforms, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, out, name, push); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o image.Options, out, name, push string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	o.Root = root
	index, err := image.Build(ctx, o)
	if err != nil {
		return err
	}
	if err := image.Write(index, name, out); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s@%s\n", out, name, digest)
	if push == "" {
		return nil
	}
	if err := upload(ctx, index, push); err != nil {
		return err
	}
	fmt.Printf("pushed %s, %s\n", push, digest)
	return nil
}

// upload writes the index to a registry, under a name such as registry.example.com/kube-eventbridge:v1.
func upload(ctx context.Context, index v1.ImageIndex, to string) error {
	ref, err := containername.ParseReference(to)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", to, err)
	}
	return nil
}
