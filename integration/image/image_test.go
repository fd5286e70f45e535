// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// What the image may be at most.
const (
	mostBytes      = 80_000_000
	mostCompressed = 30_000_000
)

func TestImage(t *testing.T) {
	o := options(t)
	o.Program = rig.ProgramForTest(t)
	index := must.Get(Build(t.Context(), o))(t)
	img := only(t, index)
	t.Run("is small", func(t *testing.T) { isSmall(t, img) })
	t.Run("says what it is", func(t *testing.T) { saysWhatItIs(t, img, o) })
	t.Run("has nothing but the program and what it needs", func(t *testing.T) { hasNothingElse(t, img) })
	t.Run("trusts certificate authorities", func(t *testing.T) { trusts(t, img) })
	t.Run("runs as its user on a root that is read only", func(t *testing.T) { runs(t, img, "kube-eventbridge") })
	t.Run("is read back from its archive", func(t *testing.T) { readBack(t, written(t, index), index) })
}

func TestImage_is_the_same_when_it_is_made_again(t *testing.T) {
	rig.Tier(t, rig.Nightly)
	o := options(t)
	var files [2][]byte
	for i := range files {
		index := must.Get(Build(t.Context(), o))(t)
		files[i] = written(t, index)
		if i == 0 {
			runs(t, only(t, index), o.Version+", commit "+o.Commit)
		}
	}
	assert.Equal(t, files[1], files[0], "two archives of one commit are different")
}

func TestBuild_refuses_what_is_incomplete(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no commit":        func(o *Options) { o.Commit = "" },
		"no time":          func(o *Options) { o.Created = time.Time{} },
		"no platform":      func(o *Options) { o.Platforms = nil },
		"a wrong platform": func(o *Options) { o.Platforms = []string{"linux/amd64/v1/v2"} },
	} {
		o := options(t)
		change(&o)
		assert.Error(t, must.Err(Build(t.Context(), o)), "%s: built", name)
	}
}

func options(t *testing.T) Options {
	t.Helper()
	root := must.Get(controlplane.Root())(t)
	return Options{
		Root: root, Version: "v0.0.0-test", Commit: "0123456789", Source: "https://example.com/source",
		Created: time.Unix(1700000000, 0), Platforms: []string{"linux/" + runtime.GOARCH},
	}
}

func isSmall(t *testing.T, img v1.Image) {
	layers := must.Get(img.Layers())(t)
	var compressed int64
	for _, l := range layers {
		size := must.Get(l.Size())(t)
		compressed += size
	}
	whole := must.Get(io.Copy(io.Discard, mutate.Extract(img)))(t)
	t.Logf("%d bytes, %d compressed", whole, compressed)
	assert.True(t, whole <= mostBytes && compressed <= mostCompressed,
		"%d bytes, %d compressed, want at most %d and %d", whole, compressed, mostBytes, mostCompressed)
}

func saysWhatItIs(t *testing.T, img v1.Image, o Options) {
	file := must.Get(img.ConfigFile())(t)
	c := file.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{Program}) || file.Architecture != runtime.GOARCH ||
		!file.Created.Equal(o.Created) {
		t.Errorf("user %q, entrypoint %q, architecture %q, created %s", c.User, c.Entrypoint, file.Architecture, file.Created)
	}
	for label, want := range map[string]string{
		"source": o.Source, "revision": o.Commit, "version": o.Version,
		"licenses": "Apache-2.0",
	} {
		assert.Equal(t, want, c.Labels["org.opencontainers.image."+label], "label %s", label)
	}
}

func hasNothingElse(t *testing.T, img v1.Image) {
	var names []string
	for h := range entries(t, img) {
		names = append(names, h.Name)
		assert.True(t, h.Mode&0o6022 == 0 && h.Uid == 0,
			"%s belongs to user %d and has mode %o, want root's, and writable for root alone", h.Name, h.Uid, h.Mode)
	}
	slices.Sort(names)
	want := []string{
		"LICENSE", "etc", "etc/group", "etc/passwd", "etc/ssl", "etc/ssl/certs",
		"etc/ssl/certs/ca-certificates.crt", "kube-eventbridge",
	}
	assert.Equal(t, want, names, "the image")
}

func trusts(t *testing.T, img v1.Image) {
	pool, n := x509.NewCertPool(), 0
	for h, data := range entries(t, img) {
		if h.Name == "etc/ssl/certs/ca-certificates.crt" {
			n = bytes.Count(data, []byte("BEGIN CERTIFICATE"))
			assert.True(t, pool.AppendCertsFromPEM(data), "none of the certificates can be read")
		}
	}
	assert.GreaterOrEqual(t, n, 100, "certificates, want Mozilla's, of which there are more than 100")
}

// written returns the archive of an image.
func written(t *testing.T, index v1.ImageIndex) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, Write(index, "localhost/kube-eventbridge:test", path))
	return must.Get(os.ReadFile(path))(t)
}

// readBack takes the archive for what the specification says of a layout.
func readBack(t *testing.T, archive []byte, want v1.ImageIndex) {
	t.Helper()
	dir := t.TempDir()
	unpack(t, tar.NewReader(bytes.NewReader(archive)), dir)
	top := must.Get(layout.ImageIndexFromPath(dir))(t)
	manifest := must.Get(top.IndexManifest())(t)
	digest := must.Get(want.Digest())(t)
	if got := manifest.Manifests[0]; got.Digest != digest ||
		got.Annotations["org.opencontainers.image.ref.name"] != "localhost/kube-eventbridge:test" {
		t.Errorf("the archive has %+v, want %s", got, digest)
	}
	require.NoError(t, validate.Index(top))
}

// runs is as a container engine would run it, as far as that is files and users: as its user, in a root that is the
// image's and mounted read only.
func runs(t *testing.T, img v1.Image, want string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testtier.Missing(t, "root, to change the root directory")
	}
	root := filepath.Join(t.TempDir(), "root")
	body := mutate.Extract(img)
	defer body.Close()
	unpack(t, tar.NewReader(body), root)
	require.NoError(t, unix.Mount(root, root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	require.NoError(t, unix.Mount("", root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
		""))
	cmd := exec.CommandContext(t.Context(), Program, "version")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: User, Gid: User}}
	out := must.Get(cmd.CombinedOutput())(t)
	assert.Contains(t, string(out), want, "version, %s", out)
}

func only(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	manifest := must.Get(index.IndexManifest())(t)
	require.Len(t, manifest.Manifests, 1, "the index has %d manifests, want 1", len(manifest.Manifests))
	return must.Get(index.Image(manifest.Manifests[0].Digest))(t)
}

// entries are the image's files and directories.
func entries(t *testing.T, img v1.Image) func(yield func(*tar.Header, []byte) bool) {
	t.Helper()
	return func(yield func(*tar.Header, []byte) bool) {
		body := mutate.Extract(img)
		defer body.Close()
		for r := tar.NewReader(body); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err)
			data := must.Get(io.ReadAll(r))(t)
			h.Name = strings.TrimSuffix(h.Name, "/")
			if !yield(h, data) {
				return
			}
		}
	}
}

func unpack(t *testing.T, r *tar.Reader, dir string) {
	t.Helper()
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		data := must.Get(io.ReadAll(r))(t)
		require.NoError(t, os.WriteFile(path, data, os.FileMode(h.Mode)))
	}
}
