// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Validate reports everything that is wrong with c, as a [Problems] without places, or nil.
func (c *Config) Validate() error {
	found, _ := c.check()
	var all Problems
	for _, i := range found {
		all = append(all, Problem{Path: i.path, Message: i.message})
	}
	if all == nil {
		return nil
	}
	return all
}

// check returns what is wrong with c, and what is allowed and costs something.
func (c *Config) check() (issues, warnings []issue) {
	v := &validator{cluster: c.Cluster, elects: c.LeaderElection != nil}
	v.top(c)
	for i := range c.Pipelines {
		v.pipeline(fmt.Sprintf("pipelines[%d]", i), &c.Pipelines[i])
	}
	v.pipelines(c)
	v.homes(c)
	v.listeners(c)
	v.election(c)
	return v.issues, v.warnings
}

// validator collects.
type validator struct {
	// cluster is what the file calls the cluster, if it does, and elects says that it has leaderElection.
	cluster          string
	elects           bool
	issues, warnings []issue
}

func (v *validator) add(path, format string, args ...any) {
	v.issues = append(v.issues, issue{path: path, message: fmt.Sprintf(format, args...)})
}

// once is add for a path that nothing was found at yet: one clash of several is enough.
func (v *validator) once(path, format string, args ...any) {
	if !slices.ContainsFunc(v.issues, func(i issue) bool { return i.path == path }) {
		v.add(path, format, args...)
	}
}

func (v *validator) warn(path, format string, args ...any) {
	v.warnings = append(v.warnings, issue{path: path, message: fmt.Sprintf(format, args...)})
}

// oneOf checks a value of an enumeration.
func oneOf[T enum](v *validator, path string, value T) {
	c, s := value.choices(), string(value)
	valid := strings.Join(c.now, ", ")
	meant, similar := closest(s, c.now)
	switch {
	case slices.Contains(c.now, s):
	case similar:
		v.add(path, "%q is not a choice, did you mean %s?; valid: %s", s, meant, valid)
	default:
		v.add(path, "%q is not a choice; valid: %s", s, valid)
	}
}

// maxPipelines bounds the comparison of each with all others.
const maxPipelines = 200

func (v *validator) top(c *Config) {
	if c.Cluster != "" && checkName(c.Cluster, ".-") != nil {
		v.add("cluster",
			"%q is not a name; use letters, digits, - and . (at most 63, a letter or digit at both ends), or leave it out",
			c.Cluster)
	}
	v.buffer("buffer.maxBytes", c.Buffer.MaxBytes)
	v.address("server.listen", c.Server.Listen)
	v.admin(&c.Server)
	oneOf(v, "log.level", c.Log.Level)
	oneOf(v, "log.format", c.Log.Format)
	if len(c.Pipelines) > maxPipelines {
		v.add("pipelines", "has %d, and a process has at most %d; spread them over several", len(c.Pipelines), maxPipelines)
		c.Pipelines = c.Pipelines[:maxPipelines]
	}
	if len(c.Pipelines) == 0 {
		v.add("pipelines", "none is given; write at least one, with a name and resources")
	}
}

// minBuffer is about what one object may take at most.
const minBuffer Size = 1 << 20

// buffer checks a bound on what is read and not yet acknowledged.
func (v *validator) buffer(path string, size Size) {
	if size < minBuffer {
		v.add(path, "%v is less than one object may take, so that reading would wait for each event's acknowledgement; "+
			"write at least %v, the default of the whole is 256Mi", size, minBuffer)
	}
}

// listenForm says how the address at path, on which a server listens, is written.
func listenForm(path string) string {
	if strings.HasSuffix(path, ".embedded.listen") {
		return "write host:port, such as 127.0.0.1:4222 or :4222"
	}
	return "write host:port, such as 127.0.0.1:8080 or :8080"
}

// address checks what a server listens on.
func (v *validator) address(path, address string) {
	if !listenable(address) {
		v.add(path, "%q is not an address to listen on; %s", address, listenForm(path))
	}
}

// admin checks who can reach what changes something, or keeps a processor busy.
func (v *validator) admin(s *Server) {
	if s.Admin != "" {
		v.address("server.admin", s.Admin)
	}
	if s.Admin == s.Listen && !anyPort(s.Listen) {
		v.add("server.admin", "%q is the address of metrics and probes, too; give each server its own", s.Admin)
	}
	if s.Admin != "" && !loopback(s.Admin) {
		v.warn("server.admin",
			"whoever reaches %s can have everything published again; write 127.0.0.1 for the host if that need not be", s.Admin)
	}
	if s.Profiling && !loopback(s.Listen) {
		v.warn("server.profiling",
			"whoever reaches %s can keep a processor busy with profiles; write 127.0.0.1 for the host of server.listen if "+
				"that need not be", s.Listen)
	}
}

// anyPort reports whether a server takes any free port.
func anyPort(address string) bool { return strings.HasSuffix(address, ":0") }

// loopback reports whether only this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

func listenable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "*"
}

// listeners checks that no two servers want one address.
func (v *validator) listeners(c *Config) {
	for i := range c.Pipelines {
		e := c.Pipelines[i].Sink.Embedded
		if e == nil || !listenable(e.Listen) || anyPort(e.Listen) {
			continue
		}
		switch e.Listen {
		case c.Server.Admin:
			v.add(fmt.Sprintf("pipelines[%d].sink.embedded.listen", i), "%q is server.admin, too; give each server its own",
				e.Listen)
		case c.Server.Listen:
			v.add(fmt.Sprintf("pipelines[%d].sink.embedded.listen", i),
				"%q is the address of metrics and probes, too; give each server its own", e.Listen)
		}
	}
}

// pipelines checks what pipelines must not have in common.
func (v *validator) pipelines(c *Config) {
	for j := range c.Pipelines {
		path, b := fmt.Sprintf("pipelines[%d]", j), &c.Pipelines[j]
		for i := range j {
			v.pair(path, &c.Pipelines[i], b)
		}
	}
	rest, sharers := c.unclaimed()
	if c.Buffer.MaxBytes > 0 && (rest < 0 || rest == 0 && sharers > 0) {
		v.add("buffer.maxBytes",
			"%v is less than what pipelines[].buffer.maxBytes ask for and the others need; raise it, or lower theirs",
			c.Buffer.MaxBytes)
	}
}

// pair checks b, at path, against the pipeline a before it.
func (v *validator) pair(path string, a, b *Pipeline) {
	// State is kept in files, and not every file system tells cases apart.
	if b.Name != "" && strings.EqualFold(a.Name, b.Name) {
		v.once(path+".name", "%q is taken by another pipeline; give each a name of its own", b.Name)
	}
	if b.Checkpoint.File.Path != "" && filepath.Clean(a.Checkpoint.File.Path) == filepath.Clean(b.Checkpoint.File.Path) {
		v.once(path+".checkpoint.file.path", "%q is the checkpoint of pipeline %q; give each a file of its own",
			b.Checkpoint.File.Path, a.Name)
	}
	if x, y := a.Sink.Embedded, b.Sink.Embedded; x != nil && y != nil &&
		(x.Listen != y.Listen && listenable(x.Listen) && listenable(y.Listen) || x.StoreDir != y.StoreDir) {
		v.once(path+".sink.embedded",
			"differs from that of pipeline %q in listen or storeDir, and a process has one embedded server; write the same",
			a.Name)
	}
	v.streams(path, a, b)
	v.checkpointTopics(path, a, b)
	v.sharedTopic(path, a, b)
}
