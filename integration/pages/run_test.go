// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

func TestPages_do_what_they_say(t *testing.T) {
	rig.Tier(t, testtier.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	for _, tool := range []string{"bash", "curl", "jq", "kcat"} {
		if _, err := exec.LookPath(tool); err != nil {
			testtier.Missing(t, tool)
		}
	}
	kubectl := must.Get(controlplane.Kubectl(t.Context(), os.Stderr))(t)
	for _, page := range []string{
		"README.md", "docs/install.md", "docs/kafka.md", "docs/high-availability.md", "docs/filters.md", "docs/audit.md",
		"docs/table.md", "docs/replicate.md",
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			r := newReader(t, api, kubectl, page)
			for _, b := range blocks(t, page) {
				r.block(&b)
			}
			assert.NotZero(t, r.ran, "the page has no commands")
		})
	}
}

// reader does what a page says.
type reader struct {
	t         *testing.T
	dir       string
	env       []string
	addresses *strings.Replacer // addresses of the page, and those that are free on this machine
	server    string            // where a bridge without a file serves
	terminals []*terminal
	printed   func() string // the last block, again if it only reads
	ran       int
}

// terminal is a command that goes on.
type terminal struct {
	command string
	process *exec.Cmd
	out     output
	ended   chan struct{}
}

// output is what processes print.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func newReader(t *testing.T, api *controlplane.ControlPlane, kubectl, page string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir()}
	free := func() string { return fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(t)) }
	r.server = free()
	embedded := free()
	pairs := []string{"127.0.0.1:8080", r.server, "127.0.0.1:8081", free(), `":8080"`, r.server}
	pairs = append(pairs, "s/:8080/:8081/", "s/"+pairs[1]+"/"+pairs[3]+"/")
	if page == "docs/kafka.md" {
		pairs = append(pairs, "localhost:9092", kafkabroker.ForTest(t, kafkabroker.Config{}).Addresses()[0])
	} else {
		pairs = append(pairs, "localhost:4222", rig.NATSForTest(t, nil).Address())
	}
	const try = "run configmaps deployments.apps"
	pairs = append(pairs, try+"\n", try+" --broker-listen "+embedded+" --listen "+r.server+"\n")
	r.addresses = strings.NewReplacer(pairs...)

	bin := filepath.Join(r.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(rig.ProgramForTest(t), filepath.Join(bin, "kube-eventbridge")))
	require.NoError(t, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	built := []byte("#!/bin/sh\n[ \"$*\" = build ]\n")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "make"), built, 0o700)) //nolint:gosec // it is run
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+r.dir, "XDG_STATE_HOME="+r.dir,
		"KUBECONFIG="+r.kubeconfig(api, page), "NATS_URL=nats://"+embedded)
	t.Cleanup(func() {
		for _, term := range r.terminals {
			r.stop(term)
			if t.Failed() {
				t.Logf("%s\n%s", term.command, &term.out)
			}
		}
		_ = r.sh("kubectl delete deployments,configmaps,secrets --all -n default", &output{})
	})
	return r
}

// kubeconfig has the contexts that a page names: those of two clusters, if it is about two.
func (r *reader) kubeconfig(api *controlplane.ControlPlane, page string) string {
	r.t.Helper()
	if page != "docs/replicate.md" {
		return must.Get(api.Kubeconfig(r.dir))(r.t)
	}
	path := filepath.Join(r.dir, "kubeconfig")
	require.NoError(r.t, controlplane.WriteContexts(path, map[string]*rest.Config{
		"east": api.RESTConfig(), "west": controlplane.ForTest(r.t, controlplane.Config{}).RESTConfig(),
	}, "east"))
	return path
}

// block writes a file, runs commands, or compares what they have printed.
func (r *reader) block(b *block) {
	r.t.Helper()
	text := r.addresses.Replace(b.text)
	for _, term := range r.terminals {
		if slices.ContainsFunc(b.stop, func(words string) bool { return strings.Contains(term.command, words) }) {
			r.stop(term)
		}
	}
	switch {
	case b.skipped:
	case b.file() != "":
		if !strings.Contains(text, "\nserver:") {
			text += "server: {listen: " + r.server + "}\n"
		}
		require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, b.file()), []byte(text), 0o600))
	case b.language == "sh":
		r.ran++
		r.run(text)
	case b.language == "text":
		r.compare(b.text)
	}
}

var (
	goesOn = regexp.MustCompile(`(?m)^\S*kube-eventbridge ((run|tail)\b.*|replicate --config \S+)\n\z`)
	reads  = regexp.MustCompile(`(?m)^\S*(kube-eventbridge (tail|replicate)|kcat|kubectl (.* )?get|curl) `)
	config = regexp.MustCompile(`--config \S+`)
	// begun fits what a terminal has printed when it shows each change to come, of two resources.
	begun = regexp.MustCompile(`(?s)from now on|this was what existed.*this was what existed`)
)

// run runs the commands of a block in one shell.
func (r *reader) run(text string) {
	r.t.Helper()
	last := goesOn.FindStringIndex(text)
	if last != nil && !strings.Contains(text[last[0]:], "--follow=false") {
		r.open(text[:last[0]] + "exec " + text[last[0]:])
		return
	}
	var out output
	if err := r.sh(text, &out); err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, text, &out)
	}
	r.printed = out.String
	if at := reads.FindStringIndex(text); at != nil {
		again := text[at[0]:] // a person is slower than the events
		r.printed = func() string {
			var out output
			_ = r.sh(again, &out)
			return out.String()
		}
	}
}

// command returns a shell that ends when the first command fails.
func (r *reader) command(ctx context.Context, text string, out *output) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+text)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, out, out
	return cmd
}

func (r *reader) sh(text string, out *output) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), rig.Patience())
	defer cancel()
	return r.command(ctx, text, out).Run()
}

// open runs commands in a terminal of their own, and waits until a bridge is ready, or events are shown.
func (r *reader) open(text string) {
	r.t.Helper()
	term := &terminal{command: text, ended: make(chan struct{})}
	term.process = r.command(context.WithoutCancel(r.t.Context()), text, &term.out)
	require.NoError(r.t, term.process.Start())
	r.terminals = append(r.terminals, term)
	go func() {
		defer close(term.ended)
		_ = term.process.Wait()
	}()
	of, asked, wanted := config.FindString(text), "kube-eventbridge status ", ""
	switch {
	case strings.Contains(text, "kube-eventbridge replicate "):
		asked, wanted = "kube-eventbridge replicate status ", " 0 pending"
	case !strings.Contains(text, "kube-eventbridge run ") || strings.Contains(text, "-o wide"):
		rig.Poll(r.t, "a terminal that shows events", func() (bool, string) {
			return begun.MatchString(term.out.String()), term.out.String()
		})
		return
	}
	if of == "" {
		of = "--server " + r.server
	}
	rig.Poll(r.t, "a bridge that is ready", func() (bool, string) {
		var out output
		err := r.sh(asked+of, &out)
		select {
		case <-term.ended:
			r.t.Fatalf("it has ended: %s\n%s", text, &term.out)
		default:
		}
		return err == nil && strings.Contains(out.String(), wanted), out.String() + term.out.String()
	})
}

// stop ends a terminal as Ctrl-C does.
func (r *reader) stop(term *terminal) {
	_ = term.process.Process.Signal(syscall.SIGINT) // it may have ended
	<-term.ended
}

// compare waits until the last block, or a terminal, has printed lines.
func (r *reader) compare(want string) {
	r.t.Helper()
	rig.Poll(r.t, "what the page shows", func() (bool, string) {
		all := []string{""}
		if r.printed != nil {
			all[0] = r.printed()
		}
		for _, term := range r.terminals {
			all = append(all, term.out.String())
		}
		for _, printed := range all {
			if missing(want, printed) == "" {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%q is missing in\n%s", missing(want, all[0]), strings.Join(all, "\n---\n"))
	})
}
