// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build says what was built, from what and with what.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// UserAgent returns what the program is called in requests and in the API server's audit log, in the form that kubectl
// has.
func (b Build) UserAgent() string {
	return fmt.Sprintf("kube-eventbridge/%s (%s) commit/%.12s", b.Version, b.Platform, b.Commit)
}

// NewBuild describes this binary. What the linker was not told, and is empty, comes from the module's build
// information; "unknown" where that has nothing either.
func NewBuild(version, commit string) Build {
	b := Build{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && b.Commit == "" {
				b.Commit = s.Value
			}
		}
	}
	for _, field := range []*string{&b.Version, &b.Commit} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return b
}
