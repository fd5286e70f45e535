// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// tailBroker starts a NATS server with the token, and a log of three events of two objects in the stream KUBERNETES.
func tailBroker(t *testing.T, token string) string {
	t.Helper()
	url := startServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Authorization: token})
	nc := must.Get(nats.Connect(url, nats.Token(token)))(t)
	defer nc.Close()
	js := must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second)))(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KUBERNETES", Subjects: []string{"k8s.>"},
		AllowDirect: true,
	}); err != nil {
		t.Fatal(err)
	}
	for i, e := range []struct{ pipeline, op, name, data string }{
		{"audit", "added", "web", `{"spec":{"replicas":1}}`},
		{"other", "added", "db", `{"spec":{"replicas":1}}`},
		{"audit", "updated", "web", `{"spec":{"replicas":3}}`},
	} {
		m := nats.NewMsg("k8s.east.apps.deployments.shop." + e.name)
		for name, value := range map[string]string{
			"specversion": "1.0", "id": fmt.Sprintf("%s.%d", e.name, i), "type": "io.kube-eventbridge.resource." + e.op + ".v1",
			"source": "/clusters/east/apis/apps/v1/deployments", "subject": "shop/" + e.name, "namespace": "shop",
			"name":      e.name,
			"objectuid": e.name, "payload": "object", "reason": "watch", "pipeline": e.pipeline,
			"recordedtime": "2026-11-20T14:30:05.250Z",
			"time":         "2026-11-20T14:30:05Z", "resourceversion": fmt.Sprint(i + 1), "fieldmanager": "kubectl",
			"kind": "Deployment",
		} {
			m.Header["ce-"+name] = []string{value}
		}
		m.Data = []byte(e.data)
		must.Get(js.PublishMsg(t.Context(), m))(t)
	}
	return url
}

// startServer starts a NATS server that ends with the test, and returns its address.
func startServer(t *testing.T, options *server.Options) string {
	t.Helper()
	testtier.Servers(t)
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", -1, true, true
	s := must.Get(server.NewServer(options))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute), "the broker does not start")
	return s.ClientURL()
}

// tailed runs the command line and returns what it did.
func tailed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), append([]string{"tail"}, args...),
		&cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

func TestTail_prints_the_log(t *testing.T) {
	t.Setenv("NATS_URL", tailBroker(t, ""))
	code, out, errs := tailed(t, "--follow=false", "--from-start", "--utc", "--no-headers")
	const want = "--- 2026-11-20 ---\n" +
		"14:30:05.250  added     deployments.apps  shop/web                          1         kubectl                   " +
		"created by kubectl\n14:30:05.250  added     deployments.apps  shop/db                           2         kubectl " +
		"                  created by kubectl\n14:30:05.250  updated   deployments.apps  shop/web                          " +
		"3         kubectl                   spec.replicas 1→3\n"
	assert.True(t, code == exit.Done && out == want && errs == "", "got %d, %q\n%s\nwant\n%s", code, errs, out, want)
}

func TestTail_prints_what_is_asked_for(t *testing.T) {
	t.Setenv("NATS_URL", tailBroker(t, ""))
	for _, c := range []struct {
		args     string
		versions string
	}{
		{"--from-start", "1 2 3"},
		{"--since 1h", "1 2 3"},
		{"--since 2d", "1 2 3"},
		{"--since 1w", "1 2 3"},
		{"--since-time 2000-01-01T00:00:00Z --until 2000-01-02T00:00:00Z", ""},
		{"--last 2", "2 3"},
		{"", ""},
		{"deploy --from-start", "1 2 3"},
		{"pods --from-start", ""},
		{"deployments.apps/d* --from-start", "2"},
		{"--from-start --name web --op updated", "3"},
		{"--from-start -n shop,kube-system --pipeline other", "2"},
		{"--from-start -n kube-system", ""},
		{"--from-start --subject k8s.*.*.*.*.db", "2"},
		{"-A --from-start", "1 2 3"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errs := tailed(t, append(strings.Fields(c.args), "-o", "json", "--follow=false")...)
			require.Equal(t, exit.Done, code, errs)
			var versions []string
			for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
				var e struct{ Resourceversion string }
				require.NoError(t, d.Decode(&e))
				versions = append(versions, e.Resourceversion)
			}
			assert.Equal(t, c.versions, strings.Join(versions, " "), "got versions")
		})
	}
}

func TestTail_takes_the_broker_from_the_configuration(t *testing.T) {
	url := tailBroker(t, "s3cret")
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	token := write("token", "s3cret\n")
	wrong := write("wrong", "wrong\n")
	file := write("bridge.yaml", `
pipelines:
- name: audit
  resources: [{resource: deployments.apps}]
  sink: {nats: {servers: ["`+url+`"], tokenFile: "`+token+`"}}
- name: print
  resources: [{resource: pods}]
  sink: {stdout: {}}
`)
	start := []string{"--follow=false", "--from-start", "-o", "json"}
	for _, c := range []struct {
		args   []string
		code   int
		events int
		stderr string
	}{
		{[]string{"--config", file, "--pipeline", "audit"}, exit.Done, 2, ""},
		{[]string{"--server", url, "--token-file", token}, exit.Done, 3, ""},
		{[]string{"--config", file, "--pipeline", "audit", "--token-file", wrong}, exit.Failed, 0, "Authorization Violation"},
		{[]string{"--config", file, "--pipeline", "audit", "--stream", "NONE"}, exit.Failed, 0, `there is no stream "NONE"`},
		{[]string{"--config", file}, exit.Usage, 0, "several pipelines: choose one with --pipeline, of audit, print"},
		{[]string{"--config", file, "--pipeline", "audits"}, exit.Usage, 0, `no pipeline "audits"; it has audit, print`},
		{[]string{"--config", file, "--pipeline", "print"}, exit.Usage, 0, "nothing to read back"},
		{[]string{"--server", url}, exit.Failed, 0, "Authorization Violation"},
	} {
		code, out, errs := tailed(t, append(c.args, start...)...)
		assert.True(t, code == c.code && strings.Count(out, "\n") == c.events && strings.Contains(errs, c.stderr) &&
			!strings.Contains(errs, "s3cret"), "%v: got %d, %q and\n%s", c.args, code, errs, out)
	}
}

func TestTail_refuses_a_command_line_that_means_nothing(t *testing.T) {
	for args, want := range map[string]string{
		"-o yaml":                      `-o "yaml" is not an output format; use json or wide`,
		"--since 1h --from-start":      "--from-start and --since exclude each other: keep one of them",
		"--since yesterday":            "it is not a duration; write one such as 30s, 10m, 2h or 1d",
		"--since 2days":                "it is not a duration; write one such as 30s, 10m, 2h or 1d",
		"--since 2000-01-01T00:00:00Z": "it is a time; write --since-time",
		"--last many":                  `invalid argument "many" for "--last" flag: write a whole number`,
		"--follow=maybe":               `invalid argument "maybe" for "-f, --follow" flag: write true or false`,
		"--since -1h":                  "give them without a minus sign",
		"--last -1":                    "give them without a minus sign",
		"--since-time last-week":       `"last-week" is not a time; write one such as 2026-11-17`,
		"--until -10m":                 `"-10m" is not a time; write one such as 2026-11-17`,
		"--op modified":                "use added, updated, deleted, rejected, gap, snapshot or resync",
		"--name shop/web":              `--name: "shop/web" has what no name has`,
		"pods/":                        `"pods/" names no resource`,
		"pods/a/b": `"pods/a/b" has two slashes, and no object matches that; say RESOURCE or ` +
			`RESOURCE/NAME, such as pods/web-0`,
		"--subject foo..x":            `--subject: "foo..x" is not a subject: a word between its dots is empty`,
		"-n kube-*":                   `--namespace: "kube-*" is not the name of a namespace`,
		"--namespace=":                "--namespace is empty: give the name of a namespace",
		"-A -n shop":                  "--all-namespaces and --namespace exclude each other: keep one of them",
		"--user me":                   "give --user and --password-file together",
		"--password-file a":           "give --user and --password-file together",
		"--tls-cert a":                "give --tls-cert and --tls-key together",
		"--creds a --nkey b":          "--creds and --nkey exclude each other: keep one of them",
		"-s foo://me:hidden@x":        `--server: "foo://redacted@x" has the scheme "foo"; use nats, tls, ws or wss`,
		"-s nats://a -s foo://hidden": `--server: "foo://hidden" has the scheme "foo"`,
	} {
		code, _, errs := tailed(t, append(strings.Fields(args), "--follow=false")...)
		assert.True(t, code == exit.Usage && strings.Contains(errs, want) &&
			strings.Contains(errs, "see: kube-eventbridge tail --help"), "%s: got %d, %s", args, code, errs)
	}
	t.Setenv("NATS_URL", "nats://127.0.0.1:1,foo://x")
	if code, _, errs := tailed(t, "--follow=false"); code != exit.Usage ||
		!strings.Contains(errs, `$NATS_URL: "foo://x" has the scheme "foo"`) {
		t.Errorf("got %d, %s", code, errs)
	}
}

func TestTail_names_the_flag_whose_file_cannot_be_read(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for args, want := range map[string]string{
		"--creds /nope":                  "error: --creds: open /nope: no such file or directory\n",
		"--nkey /nope":                   "error: --nkey: open /nope: no such file or directory\n",
		"--token-file /nope":             "error: --token-file: open /nope: no such file or directory\n",
		"--token-file " + empty:          "error: --token-file: " + empty + " is empty\n",
		"--user me --password-file /":    "error: --password-file: / is a directory\n",
		"--tls-ca /nope":                 "error: --tls-ca: open /nope: no such file or directory\n",
		"--tls-cert /nope --tls-key /no": "error: --tls-cert: open /nope: no such file or directory\n",
	} {
		code, _, errs := tailed(t, append(strings.Fields(args), "--follow=false")...)
		assert.Equal(t, exit.Failed, code, args)
		assert.Equal(t, want, errs, args)
	}
}

func TestTail_that_shows_nothing_says_so_and_succeeds(t *testing.T) {
	t.Setenv("NATS_URL", tailBroker(t, ""))
	for args, want := range map[string]string{
		"--from-start --name web --op deleted": "tail: no event matches\n",
		"--from-start pods":                    "tail: no event matches pods; those read are about deployments.apps\n",
		"--from-start --op updated deploy":     "",
		"": "tail: no event matches: reading began at the end of the log; begin " +
			"earlier with --from-start, --since or --last\n",
	} {
		code, _, errs := tailed(t, append(strings.Fields(args), "--follow=false")...)
		assert.Equal(t, exit.Done, code, args)
		assert.Equal(t, want, errs, args)
	}
}

func TestTail_without_following_fails_where_JetStream_is_off(t *testing.T) {
	url := startServer(t, &server.Options{})
	code, _, errs := tailed(t, "--server", url, "--follow=false", "--from-start")
	want := "error: read stream KUBERNETES at " + url +
		": JetStream does not answer (is it enabled on the server and for this account?): "
	assert.Equal(t, exit.Failed, code)
	assert.True(t, strings.HasPrefix(errs, want))
}

func TestTail_that_follows_says_that_it_reads_before_there_is_an_event(t *testing.T) {
	url := tailBroker(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := new(watched), new(watched)
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"tail", "--server", strings.TrimPrefix(url, "nats://")},
			&cmdutil.Streams{In: strings.NewReader(""), Out: out, Err: errs})
	}()
	out.wait(t, "TIME ")
	errs.wait(t, "tail: reading stream KUBERNETES at "+url+" from now on; ^C ends it\n")
	cancel()
	code := <-done
	assert.True(t, code == exit.Done && strings.Count(out.String(), "\n") == 1, "got %d, %s, %s", code, out, errs)
}

// watched is a file that a test waits for.
type watched struct{ testlog.Text }

func (w *watched) wait(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(w.String(), want); <-tick.C {
		require.False(t, time.Now().After(end), "waited in vain for %q, got %q", want, w)
	}
}

func TestTail_without_following_fails_where_there_is_no_broker(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	for _, server := range []string{"nats://" + address, address} {
		code, _, errs := tailed(t, "--server", server, "--follow=false")
		want := "error: connect to " + server + ": dial tcp " + address +
			": connect: connection refused; is the NATS server, or the bridge that contains it, running there?\n"
		assert.Equal(t, exit.Failed, code)
		assert.Equal(t, want, errs)
	}
}
