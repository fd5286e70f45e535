// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/once"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// image is one that is built FROM scratch.
type image struct {
	name  string
	files map[string]string // by path in the image, files and directories of this machine
	steps []string          // of the Dockerfile, after the files are there
	texts map[string]string // by path in the image, files that are short
}

// build returns the name of the image, after building it if the engine does not have it.
func (i *image) build(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	context, sum := i.pack(t)
	repo := "kube-eventbridge-test/" + i.name
	tag := repo + ":" + sum
	p, err := testcontainers.NewDockerProvider()
	require.NoError(t, err)
	defer p.Close()
	if _, err := p.Client().ImageInspect(ctx, tag); err == nil {
		return tag
	}
	began := time.Now()
	var printed bytes.Buffer
	req := testcontainers.ContainerRequest{FromDockerfile: testcontainers.FromDockerfile{
		ContextArchive: context, Repo: repo, Tag: sum, KeepImage: true,
		BuildLogWriter: &printed,
	}}
	_, err = p.BuildImage(ctx, &req)
	require.NoError(t, err, "build %s: %v\n%s", tag, err, printed.Bytes())
	t.Logf("built %s in %s", tag, time.Since(began).Round(100*time.Millisecond))
	forget(ctx, p.Client(), repo, tag)
	return tag
}

// forget removes older images of the name, unless a container is made of them.
func forget(ctx context.Context, c client.APIClient, repo, tag string) {
	found, err := c.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", repo)})
	if err != nil {
		return // they take up room, and nothing else
	}
	for _, old := range found.Items {
		if !slices.Contains(old.RepoTags, tag) {
			_, _ = c.ImageRemove(ctx, old.ID, client.ImageRemoveOptions{PruneChildren: true})
		}
	}
}

// pack writes the context of a build into a temporary file, and returns a hash of it; the same contents give the same
// hash.
func (i *image) pack(t *testing.T) (*os.File, string) {
	t.Helper()
	f := must.Get(os.CreateTemp(t.TempDir(), "context"))(t)
	t.Cleanup(func() { _ = f.Close() })
	h := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, h))
	dockerfile := strings.Join(append([]string{"FROM scratch", "COPY root/ /"}, i.steps...), "\n") + "\n"
	require.NoError(t, write(w, "Dockerfile", 0o644, dockerfile))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "root/tmp/", Mode: 0o1777}))
	for _, name := range slices.Sorted(maps.Keys(i.texts)) {
		require.NoError(t, write(w, path.Join("root", name), 0o644, i.texts[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		require.NoError(t, addTree(w, path.Join("root", name), i.files[name]))
	}
	require.NoError(t, w.Close())
	must.Get(f.Seek(0, io.SeekStart))(t)
	return f, hex.EncodeToString(h.Sum(nil)[:6])
}

func write(w *tar.Writer, name string, mode int64, text string) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// addTree adds a file, or a directory with what is in it. Links are followed; what is kept of a file is whether it is a
// program.
func addTree(w *tar.Writer, name, from string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil || info.IsDir() {
			return err
		}
		return addFile(w, path.Join(name, filepath.ToSlash(rel)), p, info)
	})
}

func addFile(w *tar.Writer, name, from string, info fs.FileInfo) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.WriteHeader(&tar.Header{
		Name: name, Mode: 0o644 | int64(info.Mode()&0o111),
		Size: info.Size(),
	}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

var library = regexp.MustCompile(`(?m)(?:=>|^)\s*(/\S+) \(0x`)

// withLibraries adds a program to files, and what the dynamic linker needs for it and for others that it loads, under
// their own paths.
func withLibraries(ctx context.Context, files map[string]string, name, program string, loads ...string) error {
	files[name] = program
	for _, object := range append([]string{program}, loads...) {
		if static(object) {
			continue
		}
		out, err := exec.CommandContext(ctx, "ldd", object).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ldd %s: %w\n%s", object, err, out)
		}
		for _, found := range library.FindAllSubmatch(out, -1) {
			if lib := string(found[1]); !strings.HasPrefix(lib, filepath.Dir(filepath.Dir(program))+"/lib/") {
				files[lib] = lib
			}
		}
	}
	return nil
}

// static says whether a program is linked with all that it needs.
func static(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false // ldd says why
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	return err == nil && len(libs) == 0
}

// cached returns a path in the cache, after having it made if it is missing.
func cached(ctx context.Context, name string, do func(tmp string) error) (string, error) {
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }
	p := filepath.Join(cache, "containers", name)
	err = once.Path(ctx, p, say, func(tmp string) error {
		say("making %s (some seconds, once) …", name)
		return do(tmp)
	})
	if err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	return p, nil
}

// goBuild builds a program that needs no library.
func goBuild(ctx context.Context, dir, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, printed)
	}
	return nil
}
