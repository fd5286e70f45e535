// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/tools"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// asyncAPI returns the document of a configuration file.
func asyncAPI(t *testing.T, config, format string) []byte {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), rig.ProgramForTest(t), "asyncapi", "--config", config, "-o", format)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	require.NoError(t, err, "asyncapi: %v\n%s", err, &said)
	return out.Bytes()
}

// parsed lets AsyncAPI's own parser judge documents.
func parsed(t *testing.T, files ...string) {
	t.Helper()
	command := append(scripted(t, tools.AsyncAPI, "asyncapi", "check.js"), files...)
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	assert.True(t, err == nil && strings.Count(string(out), "\n") == len(files), "the parser says: %v\n%s", err, out)
}

// What a configuration can have that makes a difference in the document.
const varied = `
pipelines:
  - name: audit
    resources:
      - {resource: deployments.v1.apps, namespaces: [web, shop]}
      - {resource: nodes, payload: metadata}
      - {resource: pods, namespaces: [web]}
      - {resource: pods, namespaces: [shop], payload: metadata}
    sink: {nats: {servers: ["nats://n1:4222", "tls://n2"], subject: "k8s.{pipeline}.{cluster}.{version}.{group}.{resource}.{namespace}.{name}", credsFile: c, tls: {certFile: a, keyFile: b}}}
  - name: one
    resources: [{resource: pods}, {resource: widgets.example.com}]
    encoding: {mode: structured}
    sink: {kafka: {brokers: ["k1:9092", "k2:9092"], create: {partitions: 12, replicas: 3}, tombstones: true, sasl: {mechanism: oauthbearer, tokenURL: "https://issuer.example/token", clientID: x, clientSecretEnv: S, scopes: [events]}}}
  - name: other
    resources: [{resource: secrets}]
    sink: {kafka: {brokers: ["k1:9092", "k2:9092"], sasl: {mechanism: plain, user: u, passwordEnv: P}}}
  - name: many
    resources: [{resource: secrets}, {resource: configmaps}]
    sink: {kafka: {brokers: ["k3:9092"], topic: "{cluster}-{version}-{resource}", tombstones: true, tls: {certFile: a, keyFile: b}, sasl: {mechanism: oauthbearer, tokenFile: t}}}
  - name: here
    resources: [{resource: pods}]
  - {name: token, resources: [{resource: pods}], sink: {nats: {servers: ["wss://n4/nats/"], tokenFile: t}}}
  - {name: user, resources: [{resource: pods}], sink: {nats: {servers: ["n5"], user: u, passwordEnv: P}}}
  - {name: scram, resources: [{resource: pods}], sink: {kafka: {brokers: ["k4:1"], sasl: {mechanism: scram-sha-512, user: u, passwordEnv: P}}}}
`

func TestAsyncAPI_documents_are_taken_by_AsyncAPIs_parser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{"varied": varied, "named": "cluster: prod-eu.1" + varied} {
		config := filepath.Join(dir, name+".config")
		require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
		said := map[string]any{}
		for _, format := range []string{"yaml", "json"} {
			file, text := filepath.Join(dir, name+"."+format), asyncAPI(t, config, format)
			require.NoError(t, os.WriteFile(file, text, 0o600))
			var document any
			require.NoError(t, yaml.Unmarshal(text, &document))
			files, said[format] = append(files, file), document
		}
		assert.Equal(t, said["json"], said["yaml"], "%s: it says something else in YAML", name)
	}
	parsed(t, files...)
}

// described is a message of a document.
type described struct {
	name             string
	headers, payload *jsonschema.Schema
}

// describing reads a document: its messages, by the name of the pipeline that has a channel of its own.
func describing(t *testing.T, text []byte) map[string][]described {
	t.Helper()
	var d struct {
		Channels   map[string]struct{ Messages map[string]any }
		Components struct {
			Messages map[string]struct{ Headers any }
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("asyncapi.json", doc))
	all := map[string][]described{}
	for channel, c := range d.Channels {
		pipeline, _, _ := strings.Cut(channel, ".")
		for _, name := range slices.Sorted(maps.Keys(c.Messages)) {
			m := described{name: name}
			at := "asyncapi.json#/components/messages/" + name
			m.payload = must.Get(compiler.Compile(at + "/payload"))(t)
			if d.Components.Messages[name].Headers != nil {
				m.headers = must.Get(compiler.Compile(at + "/headers"))(t)
			}
			all[pipeline] = append(all[pipeline], m)
		}
	}
	return all
}

// describe returns which messages a message can be.
func describe(all []described, headers map[string]any, value []byte) (names []string, err error) {
	var payload any
	if value != nil {
		if payload, err = jsonschema.UnmarshalJSON(bytes.NewReader(value)); err != nil {
			return nil, err
		}
	}
	for _, m := range all {
		if m.payload.Validate(payload) == nil && (m.headers == nil || m.headers.Validate(headers) == nil) {
			names = append(names, m.name)
		}
	}
	return names, nil
}

// TestEvents has published every kind of event in both modes to both brokers: each is in the document, as one message.
func (p *published) areDescribed(t *testing.T) {
	all := describing(t, asyncAPI(t, p.config, "json"))
	for _, log := range logs {
		found := map[string]int{}
		judge := func(headers map[string]any, value []byte) {
			names, err := describe(all[log], headers, value)
			if err != nil || len(names) != 1 {
				t.Errorf("%s: %v is described as %q, %v: %.300s", log, headers, names, err, value)
				return
			}
			found[names[0]]++
		}
		read := p.messages
		if onKafka(log) {
			read = p.records
		}
		messages := must.Get(read(target(log)))(t)
		for _, m := range messages {
			headers := map[string]any{}
			for name := range m.Header {
				headers[name] = m.Header[name][0]
			}
			judge(headers, m.Data)
		}
		assert.GreaterOrEqual(t, len(found), 10, "%s: only these were met: %v", log, found)
	}
}
