// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestSecret_never_shows_itself(t *testing.T) {
	type holder struct {
		Public Secret
		Deep   map[string]*Secret
		hidden Secret
	}
	s := NewSecret("hunter2")
	h := holder{s, map[string]*Secret{"a": &s}, s}
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(handler).Info("x", "secret", s, "holder", h, "pointer", &h)
	}
	asJSON, err := json.Marshal(h)
	asYAML, err2 := yaml.Marshal(h)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	shown := []string{logged.String(), string(asJSON), string(asYAML), fmt.Errorf("%w: %v", os.ErrInvalid, s).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h), fmt.Sprintf(verb, []Secret{s}))
	}
	for _, text := range shown {
		assert.NotContains(t, text, "hunter2", "shown")
		assert.NotContains(t, text, fmt.Sprintf("%x", "hunter2"), "shown")
	}
	for _, text := range []string{fmt.Sprintf("%v", s), fmt.Sprintf("%#v", s), s.String()} {
		assert.Equal(t, "[redacted]", text)
	}
	assert.Equal(t, `{"Public":"[redacted]","Deep":{"a":"[redacted]"}}`, string(asJSON), "got %s", asJSON)
	assert.Equal(t, "hunter2", s.Reveal(), "Reveal")
	assert.Empty(t, (Secret{}).Reveal(), "Reveal")
}

func TestCredentials_come_from_where_the_file_says(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\r\n"), 0o600))
	t.Setenv("BRIDGE_PASSWORD", "hunter2")
	c, err := (&NATSAccess{TokenFile: file, User: "bridge", PasswordEnv: "BRIDGE_PASSWORD", CredsFile: file}).Credentials()
	require.NoError(t, err)
	if c.Token.Reveal() != "s3cret" || c.User != "bridge" || c.Password.Reveal() != "hunter2" || c.CredsFile != file {
		t.Errorf("got %q %q %q %q", c.Token.Reveal(), c.User, c.Password.Reveal(), c.CredsFile)
	}
}

func TestCredentials_that_cannot_be_read_are_all_named(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	n := &NATSAccess{TokenFile: empty, PasswordEnv: "KUBE_EVENTBRIDGE_NOT_SET", NKeyFile: "/none/nkey", CredsFile: "/none/creds"}
	_, err := n.Credentials()
	want := "read tokenFile: " + empty + " is empty\n" +
		"read passwordEnv: the environment variable KUBE_EVENTBRIDGE_NOT_SET is not set\n" +
		"read nkeyFile: open /none/nkey: no such file or directory\n" +
		"read credsFile: open /none/creds: no such file or directory"
	require.Error(t, err)
	assert.Equal(t, want, err.Error())
}

func TestCredentials_of_Kafka_come_from_where_the_file_says(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\r\n"), 0o600))
	t.Setenv("BRIDGE_PASSWORD", "hunter2")
	scopes := []string{"log"}
	for name, s := range map[string]*SASL{
		"password in the environment, secret in a file": {User: "bridge", PasswordEnv: "BRIDGE_PASSWORD", ClientSecretFile: file},
		"password in a file, secret in the environment": {User: "bridge", PasswordFile: file, ClientSecretEnv: "BRIDGE_PASSWORD"},
	} {
		password, secret := "hunter2", "s3cret"
		if s.PasswordFile != "" {
			password, secret = secret, password
		}
		s.TokenFile, s.TokenURL, s.ClientID, s.Scopes = file, "https://login", "id", scopes
		c := must.Get((&Kafka{SASL: s}).Credentials())(t)
		if c.User != "bridge" || c.Password.Reveal() != password || c.ClientSecret.Reveal() != secret || c.TokenFile != file ||
			c.TokenURL != "https://login" || c.ClientID != "id" || !slices.Equal(c.Scopes, scopes) {
			t.Errorf("%s: got %+v, %q, %q", name, c, c.Password.Reveal(), c.ClientSecret.Reveal())
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			if shown := fmt.Sprintf(verb, c); strings.Contains(shown, "hunter2") || strings.Contains(shown, "s3cret") {
				t.Errorf("%s: shown: %s", name, shown)
			}
		}
	}
	if c, err := (&Kafka{}).Credentials(); err != nil || !reflect.DeepEqual(c, KafkaCredentials{}) {
		t.Errorf("of nobody: %+v, %v", c, err)
	}
}

func TestCredentials_of_Kafka_that_cannot_be_read_are_all_named(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	k := &Kafka{SASL: &SASL{User: "bridge", PasswordFile: empty, TokenFile: "/none/token", ClientSecretEnv: "KUBE_EVENTBRIDGE_NOT_SET"}}
	c, err := k.Credentials()
	want := "read passwordFile: " + empty + " is empty\n" +
		"read tokenFile: open /none/token: no such file or directory\n" +
		"read clientSecretEnv: the environment variable KUBE_EVENTBRIDGE_NOT_SET is not set"
	if err == nil || err.Error() != want || !reflect.DeepEqual(c, KafkaCredentials{}) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestResourceName_is_read_as_kubectl_reads_it(t *testing.T) {
	for _, c := range []struct {
		text string
		want ResourceName
		arg  string
	}{
		{"pods", ResourceName{Plural: "pods"}, "pods"},
		{"pods.v1", ResourceName{Plural: "pods", Version: "v1"}, "pods.v1."},
		{"pods.v1.", ResourceName{Plural: "pods", Version: "v1"}, "pods.v1."},
		{"deployments.apps", ResourceName{Plural: "deployments", Group: "apps"}, "deployments.apps"},
		{"deployments.v1.apps", ResourceName{"deployments", "v1", "apps"}, "deployments.v1.apps"},
		{"widgets.v1beta2.shop.example.com", ResourceName{"widgets", "v1beta2", "shop.example.com"}, "widgets.v1beta2.shop.example.com"},
		{"widgets.shop.example.com", ResourceName{Plural: "widgets", Group: "shop.example.com"}, "widgets.shop.example.com"},
		{"widgets.v8s.io", ResourceName{Plural: "widgets", Group: "v8s.io"}, "widgets.v8s.io"},
	} {
		var got ResourceName
		if err := got.UnmarshalText([]byte(c.text)); err != nil || got != c.want || got.Arg() != c.arg {
			t.Errorf("%s: %+v, %s, %v", c.text, got, got.Arg(), err)
		}
		var again ResourceName
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s: written as %s, read back as %+v, %v", c.text, got, again, err)
		}
	}
}

func TestResourceName_overlaps_where_objects_may_be_the_same(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"pods", "pods", true},
		{"pods", "nodes", false},
		{"deployments.apps", "deployments.v1beta1.apps", true},
		{"events.v1", "events.events.k8s.io", false},
		{"events", "events.events.k8s.io", true},
		{"events", "events.v1", true},
	} {
		var a, b ResourceName
		require.NoError(t, a.UnmarshalText([]byte(c.a)))
		require.NoError(t, b.UnmarshalText([]byte(c.b)))
		assert.Equal(t, c.want, a.overlaps(b), "%s, %s", c.a, c.b)
		assert.Equal(t, c.want, b.overlaps(a), "%s, %s", c.a, c.b)
	}
}

func TestSize_is_written_as_it_is_read(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1": 1, "256Mi": 256 << 20, "1G": 1e9, "1.5Gi": 3 << 29, "1e3": 1000} {
		var got, again Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s: written as %s, read back as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "0.5", "100m", "10MB", "1e30"} {
		var got Size
		assert.Error(t, got.UnmarshalText([]byte(text)), "%q was taken as %d", text, got)
	}
}

func TestSubjects_meet_only_where_a_subject_can_match_both(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"k8s.*.core.pods.*.*", "k8s.*.core.pods.*.*", true},
		{"k8s.*.core.pods.*.*", "k8s.*.core.nodes.*.*", false},
		{"k8s.*.core.pods.*.*", "k8s.*.*.pods.*.*", true},
		{"k8s.*.core.pods.*.*", "k8s.core.pods.*.*", false},
		{"k8s.a.*", "k8s.b.*", false},
	} {
		assert.Equal(t, c.want, mayMeet(c.a, c.b), "%s, %s", c.a, c.b)
	}
}

func TestClosest_is_what_was_probably_meant_or_nothing(t *testing.T) {
	words := []string{"name", "sink", "stop", "binary", "checkpoint", "recovery", "recover"}
	for s, want := range map[string]string{
		"nam": "name", "snik": "sink", "sinkk": "sink", "drop": "", "bin": "binary", "chekcpoint": "checkpoint", "chekpoints": "checkpoint", "reco": "", "NAME": "name", "x": "", "": "",
	} {
		if got, _ := closest(s, words); got != want {
			t.Errorf("%q is taken for %q, want %q", s, got, want)
		}
	}
}
