// SPDX-License-Identifier: Apache-2.0

package asyncapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Document returns the document.
func Document(c *Config) Object {
	d := &document{cfg: c, messages: Object{}, binary: map[Broker]bool{}, told: map[string]bool{}}
	for i := range c.Pipelines {
		d.pipeline(&c.Pipelines[i])
	}
	servers, channels, operations := Object{}, Object{}, Object{}
	for _, s := range d.servers {
		servers.set(s.name, s.object())
	}
	for _, ch := range d.channels {
		channels.set(ch.name, ch.object())
		operations.set("publish."+ch.name, ch.operation())
	}
	title := "kube-eventbridge"
	if c.Cluster != "" {
		title += " of cluster " + c.Cluster
	}
	return object(
		"asyncapi", "3.0.0",
		"info", object("title", title, "version", "1.0.0",
			"description",
			"Every change of the configured Kubernetes resources, as a CloudEvent 1.0. One object's events are in order, and "+
				"each state of it is there once.",
			"license", object("name", "Apache-2.0")),
		"defaultContentType", "application/json",
		"servers", servers, "channels", channels, "operations", operations,
		"components", object("messages", d.messages, "schemas", d.schemas(), "securitySchemes", d.security()),
	)
}

// document is one that is being made.
type document struct {
	cfg      *Config
	servers  []*server
	channels []*channel
	messages Object
	// binary and structured say which forms of events there are, kafka and tombstones that there are any.
	binary                        map[Broker]bool
	structured, kafka, tombstones bool
	// told are the schemas of objects' data that are referred to.
	told map[string]bool
}

type server struct {
	Server
	name string
}

// channel is an address, and what is published there.
type channel struct {
	name, address string
	pipelines     []string
	broker        *Pipeline
	servers       []string
	open          []string
	resources     []*Resource
	cluster       string
	messages      []string
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9]+`)

// key makes a text one that can name a part of a document.
func key(text string) string { return strings.Trim(unfit.ReplaceAllString(text, "-"), "-") }

func (d *document) pipeline(p *Pipeline) {
	var servers []string
	for _, s := range p.Servers {
		servers = append(servers, d.server(s))
	}
	one := d.oneAddress(p)
	for i := range p.Resources {
		r := &p.Resources[i]
		name := p.Name
		if !one {
			name += "." + r.name()
		}
		ch := d.channel(name, p, r, servers)
		ch.resources = append(ch.resources, r)
		d.describe(ch, p, r)
	}
}

// oneAddress reports whether all that a pipeline publishes has the same address.
func (d *document) oneAddress(p *Pipeline) bool {
	first, _ := d.address(p, &p.Resources[0])
	return !slices.ContainsFunc(p.Resources, func(r Resource) bool {
		other, _ := d.address(p, &r)
		return other != first
	})
}

func (d *document) address(p *Pipeline, r *Resource) (string, []string) {
	known := map[string]string{"pipeline": p.Name, "group": r.Group, "resource": r.Plural}
	for name, value := range map[string]string{"cluster": d.cfg.Cluster, "version": r.Version} {
		if value != "" {
			known[name] = value
		}
	}
	return p.Address.Address(known)
}

// server returns the name of a server. Pipelines share it, and what one of them says of its security adds to what
// others say.
func (d *document) server(s Server) string {
	name := key(s.Protocol + "-" + s.Host)
	for _, known := range d.servers {
		if known.name != name {
			continue
		}
		for _, way := range s.Security {
			if !slices.ContainsFunc(known.Security, func(o Security) bool { return o.Name == way.Name }) {
				known.Security = append(known.Security, way)
			}
		}
		return name
	}
	d.servers = append(d.servers, &server{s, name})
	return name
}

// channel returns that of an address: pipelines and resources may share one.
func (d *document) channel(name string, p *Pipeline, r *Resource, servers []string) *channel {
	address, open := d.address(p, r)
	for _, ch := range d.channels {
		if ch.address == address && slices.Equal(ch.servers, servers) {
			if !slices.Contains(ch.pipelines, p.Name) {
				ch.pipelines = append(ch.pipelines, p.Name)
			}
			return ch
		}
	}
	ch := &channel{
		name: name, address: address, pipelines: []string{p.Name}, broker: p, servers: servers, open: open,
		cluster: d.cfg.Cluster,
	}
	d.channels = append(d.channels, ch)
	return ch
}

func (s *server) object() Object {
	var ways []any
	for _, way := range s.Security {
		ways = append(ways, ref("components/securitySchemes/"+way.Name))
	}
	o := object("host", s.Host, "protocol", s.Protocol, "security", ways)
	if s.Path != "" {
		o.set("pathname", s.Path)
	}
	if s.TLS {
		o.set("description", "Connections are protected by TLS.")
	}
	return o
}

// security are the schemes of all servers.
func (d *document) security() any {
	var all Object
	for _, s := range d.servers {
		for _, way := range s.Security {
			all.set(way.Name, way.object())
		}
	}
	if all == nil {
		return nil
	}
	return all
}

func (s *Security) object() Object {
	o := object("type", s.Type)
	for _, m := range []member{{"scheme", s.Scheme}, {"in", s.In}, {"description", s.Description}} {
		if m.value != "" {
			o.set(m.name, m.value)
		}
	}
	if s.Type == "oauth2" {
		scopes := Object{}
		for _, scope := range s.Scopes {
			scopes.set(scope, scope)
		}
		o.set("flows", object("clientCredentials", object("tokenUrl", s.TokenURL, "availableScopes", scopes)))
		o.set("scopes", s.Scopes)
	}
	return o
}

func (ch *channel) object() Object {
	servers, messages := []any{}, Object{}
	for _, s := range ch.servers {
		servers = append(servers, ref("servers/"+s))
	}
	for _, m := range ch.messages {
		messages.set(m, ref("components/messages/"+m))
	}
	o := object("address", ch.address, "description", ch.description(), "servers", servers, "parameters", ch.parameters(),
		"messages", messages)
	if ch.broker.Broker == NATS {
		o.set("x-jetstream-stream", ch.broker.Stream)
		return o
	}
	binding := Object{}
	if len(ch.open) == 0 {
		binding.set("topic", ch.address)
	}
	for _, m := range []struct {
		name string
		n    int
	}{{"partitions", ch.broker.Partitions}, {"replicas", ch.broker.Replicas}} {
		if m.n > 0 {
			binding.set(m.name, m.n)
		}
	}
	binding.set("bindingVersion", "0.5.0")
	o.set("bindings", object("kafka", binding))
	return o
}

func (ch *channel) description() string {
	var names []string
	for _, r := range ch.resources {
		if !slices.Contains(names, r.name()) {
			names = append(names, r.name())
		}
	}
	what := "pipeline "
	if len(ch.pipelines) > 1 {
		what = "pipelines "
	}
	return fmt.Sprintf("Events of %s, published by %s%s.", strings.Join(names, ", "), what,
		strings.Join(ch.pipelines, ", "))
}

func (ch *channel) operation() Object {
	var messages []any
	for _, m := range ch.messages {
		messages = append(messages, ref("channels/"+ch.name+"/messages/"+m))
	}
	return object("action", "send", "channel", ref("channels/"+ch.name), "summary", "Publish what happened.", "messages",
		messages)
}

// parameters are what of an address differs between events, or is not known.
func (ch *channel) parameters() any {
	var all Object
	for _, name := range ch.open {
		var p Object
		switch name {
		case "namespace":
			p = object("description", "The object's namespace, and _ where there is none, as for markers.", "enum",
				ch.namespaces())
		case "name":
			p = object("description", "The object's name, percent-encoded where it has dots. "+
				"Markers have _gap, _snapshot and _resync.")
		case "version":
			p = object("description", "The version in which the API server shows the resource.", "examples", []string{"v1"})
		default:
			p = object("description", "The cluster's name, which is the uid of the namespace kube-system.")
		}
		all.set(name, p)
	}
	if all == nil {
		return nil
	}
	return all
}

// namespaces are those that there can be; nil: any.
func (ch *channel) namespaces() []string {
	var all []string
	for _, r := range ch.resources {
		if r.Namespaced && len(r.Namespaces) == 0 {
			return nil
		}
		all = append(all, r.Namespaces...)
	}
	slices.Sort(all)
	return append(slices.Compact(all), "_")
}
