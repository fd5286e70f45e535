// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/once"
)

// The names of programs in a directory of binaries, as envtest has them; it has no etcdutl.
const (
	apiServerName = "kube-apiserver"
	etcdName      = "etcd"
	etcdutlName   = "etcdutl"
)

// ErrUnavailable is wrapped by the errors of [Binaries] that mean that this machine has no binaries and cannot build
// them.
var ErrUnavailable = errors.New("no control plane binaries")

// Binaries returns a directory that holds kube-apiserver and etcd.
//
// If KUBEBUILDER_ASSETS is set it is that directory, and an error if one of the two is not in it. Otherwise it is a
// directory of the cache, .cache in the repository or the one that KUBE_EVENTBRIDGE_CACHE names, with the versions of
// binaries/go.mod in its name. What is missing there is built first, which takes minutes and needs only Go and its
// module proxy; progress goes to log as lines of text, nowhere if log is nil. Processes that call Binaries at the
// same time build once: the others wait. A build that was cut short leaves nothing that looks complete. The working
// directory does not matter.
func Binaries(ctx context.Context, log io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if err := complete(dir); err != nil {
			return "", fmt.Errorf("%w: KUBEBUILDER_ASSETS: %w", ErrUnavailable, err)
		}
		return dir, nil
	}
	if log == nil {
		log = io.Discard
	}
	b, err := newBuild(log)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := b.run(ctx); err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return b.dir, nil
}

// etcdutl returns the path of the program that restores snapshots: the one in dir, or one that is built as Binaries
// builds.
func etcdutl(ctx context.Context, dir string, log io.Writer) (string, error) {
	if path := filepath.Join(dir, etcdutlName); isProgram(path) == nil {
		return path, nil
	}
	b, err := newBuild(log)
	if err != nil {
		return "", err
	}
	b.targets = slices.DeleteFunc(b.targets, func(t target) bool { return t.name != etcdutlName })
	return filepath.Join(b.dir, etcdutlName), b.run(ctx)
}

// CacheDir returns the directory for what is built once and kept: KUBE_EVENTBRIDGE_CACHE, or .cache in the repository.
// It need not exist yet.
func CacheDir() (string, error) {
	if dir := os.Getenv("KUBE_EVENTBRIDGE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".cache"), nil
}

// Root returns the directory of the repository that this package was compiled from, or, if that is not on this machine
// (-trimpath, another machine), of the one that the working directory is in.
func Root() (string, error) {
	var from []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		from = append(from, filepath.Dir(file))
	}
	if wd, err := os.Getwd(); err == nil {
		from = append(from, wd)
	}
	for _, dir := range from {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Stat(moduleFile(dir)); err == nil {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("find the repository: no parent of %q holds %s", from, moduleFile(""))
}

func moduleFile(root string) string {
	return filepath.Join(root, "integration", "controlplane", "binaries", "go.mod")
}

// complete returns an error that names what is not in dir.
func complete(dir string) error {
	var errs []error
	for _, name := range []string{apiServerName, etcdName} {
		errs = append(errs, isProgram(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

func isProgram(path string) error {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is not a program", path)
	}
	return err
}

// build makes what is missing of one directory of binaries.
type build struct {
	module  string            // directory of the module that pins the versions
	dir     string            // where the binaries go
	version map[string]string // of the modules that it pins
	targets []target
	log     io.Writer
}

type target struct {
	name, pkg, version, flags, takes string
	// The directory of the module that it is built in, if that is not the build's.
	module string
}

var requirement = regexp.MustCompile(`(?m)^\s*(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3) (v\S+)`)

func newBuild(log io.Writer) (*build, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(moduleFile(root))
	if err != nil {
		return nil, fmt.Errorf("read pinned versions: %w", err)
	}
	version := map[string]string{}
	for _, m := range requirement.FindAllSubmatch(mod, -1) {
		version[string(m[1])] = string(m[2])
	}
	kube, etcd := version["k8s.io/kubernetes"], version["go.etcd.io/etcd/server/v3"]
	if kube == "" || etcd == "" {
		return nil, fmt.Errorf("%s does not pin both versions", moduleFile(root))
	}
	return &build{
		module:  filepath.Dir(moduleFile(root)),
		dir:     filepath.Join(cache, "controlplane", kube+"-etcd-"+etcd),
		version: version,
		targets: []target{
			{name: etcdName, pkg: "go.etcd.io/etcd/server/v3", version: etcd, flags: "-s -w", takes: "about a minute"},
			{name: etcdutlName, pkg: "go.etcd.io/etcd/etcdutl/v3", version: etcd, flags: "-s -w", takes: "some seconds"},
			{
				name: apiServerName, pkg: "k8s.io/kubernetes/cmd/kube-apiserver", version: kube, flags: versionFlags(kube),
				takes: "about 4 minutes",
			},
		},
		log: log,
	}, nil
}

// versionFlags makes kube-apiserver say its version: emulated versions and feature gates are computed from it.
func versionFlags(v string) string {
	const p = " -X k8s.io/component-base/version."
	part := regexp.MustCompile(`^v(\d+)\.(\d+)`).FindStringSubmatch(v)
	if part == nil {
		return "-s -w" + p + "gitVersion=" + v
	}
	return "-s -w" + p + "gitVersion=" + v + p + "gitMajor=" + part[1] + p + "gitMinor=" + part[2]
}

// run builds what is missing.
func (b *build) run(ctx context.Context) error {
	for _, t := range b.targets {
		build := func(tmp string) error { return b.make(ctx, t, tmp) }
		if err := once.Path(ctx, filepath.Join(b.dir, t.name), b.say, build); err != nil {
			return err
		}
	}
	return nil
}

// make builds a program at a path.
func (b *build) make(ctx context.Context, t target, path string) error {
	began := time.Now()
	b.say("building %s %s (%s, once) …", t.name, t.version, t.takes)
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", t.args(path)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = cmp.Or(t.module, b.module), &out, &out
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS=", "GOARCH=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go removes its own temporary files
	cmd.WaitDelay = 10 * time.Second
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.say("building %s %s: %s …", t.name, t.version, time.Since(began).Round(time.Second))
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("build %s %s: %w\n%s", t.name, t.version, errors.Join(context.Cause(ctx), err), last(out.Bytes()))
			}
			b.say("built %s %s in %s", t.name, t.version, time.Since(began).Round(time.Second))
			return nil
		}
	}
}

// args are those of go that write the program to a path.
func (t target) args(path string) []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", t.flags, "-o", path, t.pkg}
}

func (b *build) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", args...) // a log that cannot be written is no reason to stop
}

// last returns the end of a program's output, where its reason to fail is.
func last(out []byte) []byte {
	return bytes.TrimSpace(out[max(0, len(out)-4096):])
}
