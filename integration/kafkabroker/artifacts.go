// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for pom.xml
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/once"
)

// ErrUnavailable is wrapped by the errors of [Install] that mean that this machine has no Kafka and cannot get it.
var ErrUnavailable = errors.New("no Kafka")

//go:embed pom.xml
var pom []byte

var pomVersion = regexp.MustCompile(`<kafka\.version>([^<]+)</kafka\.version>`)

// Version returns the version of Kafka that this package runs.
func Version() string {
	found := pomVersion.FindSubmatch(pom)
	if found == nil {
		panic("pom.xml names no kafka.version")
	}
	return string(found[1])
}

// Install makes sure that a cluster can be started without the network and without delay, and is what [Start] begins
// with.
//
// What is missing in the cache, .cache in the repository or the directory that KUBE_EVENTBRIDGE_CACHE names, is fetched
// first, with mvn and its usual settings: 41 MB of jars, and some 20 MB that mvn itself needs. Then a broker runs once
// for some seconds, so that java can keep its classes in a form that halves the time of each later start (48 MB, per
// version of java). Progress goes to log as lines of text, nowhere if log is nil. Processes that call Install at the
// same time do it once: the others wait. What was cut short leaves nothing that looks complete. The working directory
// does not matter.
//
// Java 17 or newer has to be in PATH, and mvn for the first time. Without them, and where mvn cannot fetch, the error
// wraps [ErrUnavailable] and says what to install.
func Install(ctx context.Context, log io.Writer) error {
	_, err := install(ctx, log)
	return err
}

// Jars returns the directory of Kafka's jars, after fetching them as [Install] does; it does not need Java.
func Jars(ctx context.Context, log io.Writer) (string, error) {
	a, err := fetched(ctx, log)
	if err != nil {
		return "", err
	}
	return a.jars(), nil
}

func install(ctx context.Context, log io.Writer) (*installation, error) {
	j, err := findJava(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	a, err := fetched(ctx, log)
	if err != nil {
		return nil, err
	}
	i := &installation{java: j}
	if i.classpath, err = a.classpath(); err != nil {
		return nil, err
	}
	archive := filepath.Join(a.dir, "classes-java-"+j.version+".jsa")
	train := func(tmp string) error { return a.archive(ctx, i, tmp) }
	if err := once.Path(ctx, archive, a.say, train); err != nil {
		return nil, err
	}
	if info, err := os.Stat(archive); err == nil && info.Size() > 0 { // empty: this java cannot make one
		i.archive = archive
	}
	return i, nil
}

// fetched returns what has the jars.
func fetched(ctx context.Context, log io.Writer) (*artifacts, error) {
	if log == nil {
		log = io.Discard
	}
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(log, format+"\n", args...) // a log that cannot be written is no reason to stop
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	sum := sha256.Sum256(pom)
	a := &artifacts{dir: filepath.Join(cache, "kafka-"+Version()+"-"+hex.EncodeToString(sum[:4])), say: say}
	fetch := func(tmp string) error { return a.fetch(ctx, tmp) }
	if err := once.Path(ctx, a.dir, a.say, fetch); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return a, nil
}

// artifacts is one directory of the cache.
type artifacts struct {
	dir string
	say func(format string, args ...any)
}

func (a *artifacts) jars() string { return filepath.Join(a.dir, "lib") }

// fetch makes a directory with the directory of jars.
func (a *artifacts) fetch(ctx context.Context, tmp string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w; install Maven, which fetches Kafka once (Debian: apt-get install maven)", err)
	}
	began := time.Now()
	a.say("fetching Kafka %s (41 MB, once) …", Version())
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "-ntp", "dependency:copy-dependencies")
	cmd.Dir = tmp
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Kafka %s: mvn: %w\n%s", Version(), errors.Join(context.Cause(ctx), err), last(out))
	}
	a.say("fetched Kafka %s in %s", Version(), time.Since(began).Round(time.Second))
	return nil
}

// classpath names all jars, always in the same order, since an archive of classes is only good for the classpath that
// it was made with.
func (a *artifacts) classpath() (string, error) {
	jars, err := filepath.Glob(filepath.Join(a.jars(), "*.jar")) // sorted
	if err == nil && len(jars) == 0 {
		err = fmt.Errorf("%s holds no jars", a.jars())
	}
	return strings.Join(jars, string(filepath.ListSeparator)), err
}

// archive runs a broker once and has java keep the classes that it loaded.
func (a *artifacts) archive(ctx context.Context, i *installation, tmp string) error {
	began := time.Now()
	a.say("preparing Kafka %s for java %s (some seconds, once) …", Version(), i.java.version)
	cfg := Config{JVMOptions: []string{"-XX:ArchiveClassesAtExit=" + tmp}}
	if err := cfg.complete(); err != nil {
		return err
	}
	c, err := start(ctx, cfg, i)
	if err != nil {
		return fmt.Errorf("prepare Kafka: %w", err)
	}
	if err := errors.Join(c.Stop(ctx, 0), c.Close()); err != nil {
		return fmt.Errorf("prepare Kafka: %w", err)
	}
	if _, err := os.Stat(tmp); errors.Is(err, os.ErrNotExist) {
		a.say("this java cannot keep classes, so brokers will start slowly")
		return os.WriteFile(tmp, nil, 0o644)
	}
	a.say("prepared Kafka %s in %s", Version(), time.Since(began).Round(time.Second))
	return nil
}

// last returns the end of a program's output, where its reason to fail is.
func last(out []byte) []byte {
	return bytes.TrimSpace(out[max(0, len(out)-4096):])
}
