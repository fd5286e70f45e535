// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// client is an example that reads a log with a CloudEvents SDK.
type client struct {
	name string
	// kafka and nats return the command for each kind of log.
	kafka, nats func(t *testing.T) []string
}

// clients are the SDKs' examples, each of which reads all four logs. Only Go's SDK has a reader for NATS; those for HTTP read its headers, which have the same
// names. All but Python 2's leave percent-encoding on, so the examples take it off. Kafka's console consumer and kcat, which know no NATS, have
// tests of their own. The CLI of NATS is left out: its module is not to be had from Go's proxy everywhere.
var clients = []client{
	{"java", java("KafkaExample"), java("NatsExample")},
	{"python1", python("v1", "v1_kafka.py"), python("v1", "v1_nats.py")},
	{"python2", python("v2", "v2_kafka.py"), python("v2", "v2_nats.py")},
	{"node", node("kafka.js"), node("nats.js")},
	{"go", golang("kafka"), golang("nats")},
}

// on returns the command for a log: what it takes is the address of the broker, the topic or stream, and the name under which it reads.
func (c client) on(t *testing.T, r *rig, log, target string) []string {
	t.Helper()
	if onKafka(log) {
		return append(c.kafka(t), r.kafka.Addresses()[0], target, c.name+"-"+target)
	}
	return append(c.nats(t), r.nats.url(), target, c.name+"-"+target)
}

func java(class string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		i := installation{name: "java", inputs: []string{"java/pom.xml", "java/src"}, make: func(ctx context.Context, dir string) error {
			mvn, err := exec.LookPath("mvn")
			if err != nil {
				return fmt.Errorf("%w; install Maven (Debian: apt-get install maven)", err)
			}
			if _, err := exec.LookPath("javac"); err != nil {
				return fmt.Errorf("%w; install a Java development kit, 17 or newer (Debian: apt-get install default-jdk-headless)", err)
			}
			return command(ctx, dir, mvn, "-B", "-q", "-ntp", "compiler:compile", "dependency:copy-dependencies")
		}}
		dir := i.installed(t)
		classpath := filepath.Join(dir, "target", "classes") + string(filepath.ListSeparator) + filepath.Join(dir, "lib", "*")
		return []string{
			program(t, "java", "install Java 17 or newer (Debian: apt-get install default-jdk-headless)"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, class,
		}
	}
}

func python(version, script string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		python := program(t, "python3", "install Python 3.10 or newer (Debian: apt-get install python3-venv)")
		requirements := "requirements-" + version + ".txt"
		i := installation{name: "python-" + version, inputs: []string{"python/" + requirements}, make: func(ctx context.Context, dir string) error {
			if err := command(ctx, dir, python, "-m", "venv", "venv"); err != nil {
				return fmt.Errorf("%w; is python3-venv installed?", err)
			}
			return command(ctx, dir, filepath.Join(dir, "venv", "bin", "python"), "-m", "pip", "install", "-q", "-r", requirements)
		}}
		return []string{filepath.Join(i.installed(t), "venv", "bin", "python"), "-B", "python/" + script}
	}
}

func node(script string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		node := program(t, "node", "install Node 18 or newer (Debian: apt-get install nodejs)")
		i := installation{name: "node", inputs: []string{"node/package.json", "node/package-lock.json"}, make: func(ctx context.Context, dir string) error {
			npm, err := exec.LookPath("npm")
			if err != nil {
				return fmt.Errorf("%w; install npm (Debian: apt-get install npm)", err)
			}
			return command(ctx, dir, npm, "ci", "--no-audit", "--no-fund")
		}}
		// Node looks for modules beside the script.
		modules, dir := filepath.Join(i.installed(t), "node_modules"), t.TempDir()
		must(t, copyTo(dir, "node"))
		must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		return []string{node, filepath.Join(dir, script)}
	}
}

func golang(pkg string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		bin, err := build(".", "go-"+pkg, "./go/"+pkg)
		must(t, err)
		return []string{bin}
	}
}

// lines runs a client until it has printed n lines, and returns them. It prints nothing else; if it ends, or takes too long, that is an error with what it
// complained of.
func lines(t *testing.T, args []string, n int) (printed [][]byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The kernel sends the death signal when the thread that started the child ends, not the process: this keeps that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, 5*time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	for in := bufio.NewReader(stdout); len(printed) < n; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			cancel()
			_ = cmd.Wait() // the error is how it ended, and what it said is why
			return printed, fmt.Errorf("after %d of %d lines: %w\n%s", len(printed), n, err, stderr.Bytes())
		}
		printed = append(printed, line)
	}
	return printed, nil
}

// read runs a client until it has printed n events.
func read(t *testing.T, args []string, n int) []*event {
	t.Helper()
	printed, err := lines(t, args, n)
	var events []*event
	for _, line := range printed {
		e, err := parseLine(line)
		if err != nil {
			t.Fatalf("%v in %.2000s", err, line)
		}
		events = append(events, e)
	}
	if err != nil {
		t.Fatalf("%v; it has read %v", err, events)
	}
	return events
}
