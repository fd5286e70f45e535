// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Write writes the index as an OCI archive, a tar file of an OCI layout, under the name that engines are to give the
// image, such as localhost/kube-eventbridge:v1. The same index and name give the same bytes. A file that is there is
// replaced, once all is written.
func Write(index v1.ImageIndex, name, path string) error {
	dir, err := os.MkdirTemp("", "kube-eventbridge-image-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory does no harm
	l, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": name,
			"io.containerd.image.name":          name,
		}))
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = pack(dir, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// pack writes the files of dir, in the order of their names, and nothing about whose they are and from when.
func pack(dir, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".image-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone when all went well
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return packFile(w, dir, p)
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func packFile(w *tar.Writer, dir, path string) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size(),
		ModTime: time.Unix(0, 0),
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
