// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

const oldestJava = 17

// java is a program that runs classes, and its version.
type java struct {
	path, version string
}

var javaVersion = regexp.MustCompile(`version "((\d+)[^"]*)"`)

// findJava returns the java in PATH, if it is new enough for Kafka.
func findJava(ctx context.Context) (java, error) {
	const install = "install Java 17 or newer (Debian: apt-get install default-jre-headless)"
	path, err := exec.LookPath("java")
	if err != nil {
		return java{}, fmt.Errorf("%w; %s", err, install)
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return java{}, fmt.Errorf("ask %s for its version: %w; %s\n%s", path, err, install, out)
	}
	found := javaVersion.FindSubmatch(out)
	if found == nil {
		return java{}, fmt.Errorf("%s does not say its version; %s\n%s", path, install, out)
	}
	if major, err := strconv.Atoi(string(found[2])); err != nil || major < oldestJava {
		return java{}, fmt.Errorf("%s is version %s; %s", path, found[1], install)
	}
	return java{path: path, version: string(found[1])}, nil
}

// installation is what runs Kafka's classes.
type installation struct {
	java      java
	classpath string
	archive   string // classes that java maps instead of loading them; empty: none
}

// What java is always told first: to leave no files behind a SIGKILL, and to print nothing of its own where a tool
// prints its results.
var jvmOptions = []string{
	"-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError", "-Xlog:disable",
	"-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.showDateTime=true",
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	// At each start, all settings five times.
	"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
}

// What makes java start fast and stay small; it is slow where there is much to do.
var quickOptions = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// args returns the arguments that make java run a class, with further options of java before it.
func (i *installation) args(options []string, class string, args ...string) []string {
	all := append([]string(nil), jvmOptions...)
	if i.archive != "" {
		all = append(all, "-XX:SharedArchiveFile="+i.archive)
	}
	all = append(all, options...)
	all = append(all, "-cp", i.classpath, class)
	return append(all, args...)
}
