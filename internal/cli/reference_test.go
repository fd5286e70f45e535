// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var update = flag.Bool("update", false, "write the page again")

// docs/commands.md is made of the commands: run with -update to write it again.
func TestReference_is_what_the_commands_say(t *testing.T) {
	const page = "../../docs/commands.md"
	root := newRoot(&cmdutil.Streams{})
	root.InitDefaultCompletionCmd()
	var list, sections strings.Builder
	for _, cmd := range documented(root) {
		name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		fmt.Fprintf(&list, "| [`%s`](#%s) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), cell(cmd.Short))
		section(&sections, name, cmd)
	}
	want := strings.Replace(referenceHead, "{{commands}}", list.String(), 1) + sections.String()
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	}
	got := must.Get(os.ReadFile(page))(t)
	assert.Equal(t, want, string(got),
		"%s is not what the commands say; run go test ./internal/cli -run Reference -update", page)
}

// documented returns the commands below cmd that do something, in the order of the help.
func documented(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Name() == "help" || sub.Hidden:
		case sub.HasSubCommands() && sub.Name() != "completion": // one page of cobra's is enough for all shells
			if sub.LocalNonPersistentFlags().HasAvailableFlags() { // it does something itself
				all = append(all, sub)
			}
			all = append(all, documented(sub)...)
		default:
			all = append(all, sub)
		}
	}
	return all
}

// section writes what a command's help says.
func section(out *strings.Builder, name string, cmd *cobra.Command) {
	fmt.Fprintf(out, "\n## %s\n\n%s.\n\n    %s\n", name, cmd.Short, cmd.UseLine())
	if long := strings.TrimSpace(cmd.Long); long != "" && name != "completion" {
		fmt.Fprintf(out, "\n%s\n", paragraphs(long))
	}
	if cmd.Example != "" {
		fmt.Fprintf(out, "\n```\n%s\n```\n", strings.Trim(unindented(cmd.Example), "\n"))
	}
	var flags strings.Builder
	write := func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			fmt.Fprintf(&flags, "| %s | %s |\n", flagName(f), cell(flagText(f)))
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(write)
	cmd.InheritedFlags().VisitAll(write)
	if flags.Len() > 0 {
		fmt.Fprintf(out, "\n| flag | meaning |\n|---|---|\n%s", flags.String())
	}
}

// flagName returns how a flag is written, with the name of its value.
func flagName(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if value, _ := pflag.UnquoteUsage(f); value != "" {
		name = "`--" + f.Name + " " + value + "`"
	}
	if f.Shorthand != "" {
		name += ", `-" + f.Shorthand + "`"
	}
	return name
}

// flagText returns what a flag means, and its default.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "[]", "false", "0":
		return text
	default:
		return text + " (default `" + f.DefValue + "`)"
	}
}

// paragraphs joins the lines of a text that belong together, and shows what Markdown would take for its own.
func paragraphs(text string) string {
	var all []string
	for _, p := range strings.Split(text, "\n\n") {
		all = append(all, escapedText(strings.Join(strings.Fields(p), " ")))
	}
	return strings.Join(all, "\n\n")
}

func unindented(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(all, "")
}

func cell(text string) string { return strings.ReplaceAll(escapedText(text), "|", `\|`) }

func escapedText(text string) string {
	return strings.NewReplacer("*", `\*`, "<", "&lt;").Replace(text)
}

const referenceHead = `# Commands

| command | does |
|---|---|
{{commands}}
This page is made of the commands' own help, by ` + "`go test ./internal/cli -run Reference -update`" + `.

## In all commands

- Resources are named as for kubectl: ` + "`pods`, `po`, `deployments.apps`, `deployments.v1.apps`" + `.
- ` + "`-n`, `-A`, `-l`, `-o`, `--kubeconfig` and `--context`" + ` mean what they mean in kubectl.
- ` + "`-o json` and `-o yaml`" + ` are for programs, and ` + "`-o wide`" + ` says more to people.
- Errors go to standard error, and say what to do next.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | the command line or the configuration has to be written differently |
| 128 + n | ended by a second signal with the number n |

Completion for bash: ` + "`source <(kube-eventbridge completion bash)`" + `. It knows built-in resources, a file's
pipelines and resources, and contexts. Other shells: zsh, fish, powershell.

## When run ends by itself

` + "`run`" + ` waits for a broker or an API server that is away, also at the start. The first SIGINT or SIGTERM stops
reading, and waits up to 20 s for what is under way. Otherwise it ends only for what it must not go on with:

| exit code | because |
|---|---|
| 2 | a bad command line or configuration; no kubeconfig, or not that context |
| 2 | a secret or a certificate that cannot be read |
| 2 | a namespace for a resource that has none; two names in one pipeline that are one resource, such as ` +
	"`pods` and `po`" + ` |
| 1 | an address in use |
| 1 | no pipeline can go on |

A pipeline ends if it cannot write its directory, if its checkpoint must not be used, or if its JetStream stream would
lose or repeat messages. A checkpoint must not be used if it is of another cluster, damaged, of an unknown format, or
open in another process. With ` + "`onReject: stop`" + ` an event that the broker refuses ends the pipeline, too. The
other pipelines go on. The pipeline is tried again, after a minute at first, and after a quarter of an hour at most.

## Before reset and rewind

Stop the bridge before ` + "`checkpoint reset` and `checkpoint rewind`" + `. Both refuse a file that a bridge has open,
and a checkpoint in Kafka or NATS that receives commits. They cannot see an idle bridge there; it ends with exit code 1
at its next commit. A copy of a file stays beside it, such as ` + "`audit.db.20261122T110000Z.bak`" + `. To go back,
stop the bridge and rename the copy.
`
