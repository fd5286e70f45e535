// SPDX-License-Identifier: Apache-2.0

// Package image makes the bridge's container image, without a container engine.
//
// The image is FROM scratch: the static program, certificate authorities, and the user and group 65532 that it runs as;
// no shell, and nothing that can be written. The same commit, made with the same Go release, gives the same digest: no
// time but the commit's is in it, and nothing of the machine; the certificate authorities are Mozilla's, of the version
// that go.mod says.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is the user and the group that the image runs as.
const User = 65532

// Program is where the bridge is in the image.
const Program = "/kube-eventbridge"

// Options say of what an image is made. All of them but Program are needed.
type Options struct {
	// Root is the directory of the repository.
	Root string
	// Version and Commit are in the program and in labels.
	Version, Commit string
	// Source is where the code is published.
	Source string
	// Created is the time of everything in the image; the commit's, so that it can be made again.
	Created time.Time
	// Platforms are such as linux/amd64.
	Platforms []string
	// Program is the file of the program, for tests with one platform. If it is empty the program is compiled.
	Program string
}

// Build returns an index with an image for each platform, after compiling the program for it. It needs Go.
func Build(ctx context.Context, o Options) (v1.ImageIndex, error) {
	if o.Root == "" || o.Version == "" || o.Commit == "" || o.Source == "" || o.Created.IsZero() || len(o.Platforms) == 0 {
		return nil, errors.New("build an image: root, version, commit, source, time and platforms are needed")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range o.Platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, fmt.Errorf("platform %q: %w", name, err)
		}
		img, err := o.image(ctx, platform)
		if err != nil {
			return nil, fmt.Errorf("build the image for %s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}

func (o Options) image(ctx context.Context, p *v1.Platform) (v1.Image, error) {
	program, err := o.program(ctx, p)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(o.Root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{ // what changes least comes first
		{
			{"etc/group", 0o444, fmt.Appendf(nil, "nonroot:x:%d:\n", User)},
			{"etc/passwd", 0o444, fmt.Appendf(nil, "nonroot:x:%d:%d::/:/none\n", User, User)},
			{"etc/ssl/certs/ca-certificates.crt", 0o444, authorities()},
			{"LICENSE", 0o444, license},
		},
		{{Program[1:], 0o555, program}},
	} {
		layer, err := layerOf(files, o.Created)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	return o.configure(img, p)
}

func (o Options) configure(img v1.Image, p *v1.Platform) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Created = v1.Time{Time: o.Created.UTC()}
	file.History = nil
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", User, User),
		Entrypoint: []string{Program},
		WorkingDir: "/",
		Env:        []string{"PATH=/"}, // so that exec takes the program's name
		Labels: map[string]string{
			"org.opencontainers.image.title":    "kube-eventbridge",
			"org.opencontainers.image.source":   o.Source,
			"org.opencontainers.image.revision": o.Commit,
			"org.opencontainers.image.version":  o.Version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, file)
}

// program returns the program that was given, or compiles it.
func (o Options) program(ctx context.Context, p *v1.Platform) ([]byte, error) {
	if o.Program != "" {
		return os.ReadFile(o.Program)
	}
	dir, err := os.MkdirTemp("", "kube-eventbridge-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory does no harm
	out := filepath.Join(dir, "program")
	flags := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", o.Version, o.Commit)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o", out,
		"./cmd/kube-eventbridge")
	cmd.Dir = o.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the bridge: %w\n%s", err, said)
	}
	return os.ReadFile(out)
}

// authorities returns Mozilla's certificate authorities in PEM, without those that are trusted under conditions, which
// PEM cannot say.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if c, err := x509.ParseCertificate(root.Certificate); err == nil {
			_, _ = fmt.Fprintf(&out, "# %s\n", c.Subject) // a buffer takes everything
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return out.Bytes()
}

// file is one in a layer; it belongs to root.
type file struct {
	name string
	mode int64
	data []byte
}

// layerOf returns a layer with the files and the directories that they are in.
func layerOf(files []file, at time.Time) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, f := range files {
		if err := addDirectories(w, filepath.Dir(f.name), at, made); err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

func addDirectories(w *tar.Writer, dir string, at time.Time, made map[string]bool) error {
	if dir == "." || made[dir] {
		return nil
	}
	if err := addDirectories(w, filepath.Dir(dir), at, made); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at})
}
