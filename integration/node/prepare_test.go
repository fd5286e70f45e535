// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	containername "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/image"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

const sandboxImage = "localhost/sandbox:test"

// prepare does what needs the network, or the file systems that the world hides: it builds the programs and puts the
// images into dir.
func prepare(ctx context.Context, dir string) error {
	if _, err := controlplane.Binaries(ctx, os.Stderr); err != nil {
		return err
	}
	if _, err := controlplane.NodeBinaries(ctx, os.Stderr); err != nil {
		return err
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	chart, err := loader.LoadDir(chartDir(root))
	if err != nil {
		return fmt.Errorf("load the chart: %w", err)
	}
	program, err := rig.Program(ctx, os.Stderr)
	if err != nil {
		return err
	}
	index, err := image.Build(ctx, image.Options{
		Root: root, Version: chart.Metadata.AppVersion, Commit: "test", Source: "https://example.com",
		Created:   time.Unix(1700000000, 0),
		Platforms: []string{"linux/" + runtime.GOARCH}, Program: program,
	})
	if err != nil {
		return err
	}
	if err := image.Write(index, "localhost/kube-eventbridge:"+chart.Metadata.AppVersion,
		filepath.Join(dir, "bridge.tar")); err != nil {
		return err
	}
	return writeSandbox(ctx, dir)
}

func chartDir(root string) string { return filepath.Join(root, "deploy", "chart", "kube-eventbridge") }

// writeSandbox makes the image of what holds a Pod's namespaces.
func writeSandbox(ctx context.Context, dir string) error {
	program := filepath.Join(dir, "sandbox")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", program,
		"github.com/kube-eventbridge/kube-eventbridge/integration/node/sandbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of the sandbox: %w\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "sandbox", Mode: 0o555,
		Size: int64(len(data)),
	}); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser,
		error,
	) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint, config.Config.User = "linux", runtime.GOARCH,
		[]string{"/sandbox"}, "65535:65535"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	tag, err := containername.NewTag(sandboxImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(dir, "sandbox.tar"), tag, img)
}
