// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		have, want string
		covers     bool
	}{
		{"k8s.>", "k8s.>", true},
		{"k8s.>", "k8s.a", true},
		{"k8s.>", "k8s.a.>", true},
		{"k8s.>", "k8s", false},
		{">", "k8s.>", true},
		{"*.>", "k8s.>", true},
		{"k8s.*", "k8s.>", false},
		{"k8s.*", "k8s.*", true},
		{"k8s.*", "k8s.a", true},
		{"k8s.*", "k8s.a.b", false},
		{"k8s.a", "k8s.*", false},
		{"k8s.a.>", "k8s.>", false},
		{"k8s.*.c", "k8s.b.c", true},
		{"k8s.*.c", "k8s.b.d", false},
		{"k8s", "k8s.a", false},
	} {
		assert.Equal(t, tt.covers, Covers(tt.have, tt.want), "Covers(%q, %q)", tt.have, tt.want)
	}
}

func TestDeniedSubject(t *testing.T) {
	for text, want := range map[string]string{
		`nats: permissions violation: Permissions Violation for Publish to "k8s.a\"b"`: `k8s.a"b`,
		`nats: permissions violation: Permissions Violation for Subscription to "x"`:   "",
		`Permissions Violation for Publish to k8s`:                                     "",
	} {
		got, ok := DeniedSubject(text)
		assert.True(t, got == want && ok == (want != ""), "%s: %q, %v", text, got, ok)
	}
}
