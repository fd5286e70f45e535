// SPDX-License-Identifier: Apache-2.0

// Package embedded runs a NATS server with JetStream in this process.
//
// It has no authentication and no monitoring: it is for seeing events without installing a broker.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Config says where the server listens and keeps its messages.
type Config struct {
	// Listen is host:port (default "127.0.0.1:4222"); port 0 takes a free one.
	Listen string
	// ListenKey is what the configuration calls Listen; errors name it.
	ListenKey string
	// StoreDir is where streams are kept; it is created.
	StoreDir string
	// StoreKey is what the configuration calls StoreDir; errors name it.
	StoreKey string
	// MaxBytes bounds what the streams take on the disk (0: three quarters of what is free or theirs).
	MaxBytes int64
	// SyncInterval is how often streams are flushed to the disk (default 10 s). What was acknowledged since the last
	// time survives the end of the process, but not of the machine.
	SyncInterval time.Duration
}

const (
	defaultListen = "127.0.0.1:4222"
	defaultSync   = 10 * time.Second
	startTimeout  = 30 * time.Second
	// lookInterval is how often it is looked whether the server stores messages.
	lookInterval = time.Second
	// room is how many bytes there have to be before a server is started again.
	room = 4 << 20
)

// Server is a server that runs while Run does.
type Server struct {
	cfg   Config
	log   *slog.Logger
	host  string
	port  int
	ready chan struct{}
	once  sync.Once

	// limit is that of the next server; 0 has it compute three quarters. It is Run's own.
	limit int64

	mu  sync.Mutex
	srv *server.Server // nil while no client can connect
	err error
}

// New checks cfg. A nil logger means none.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	if cfg.Listen == "" {
		cfg.Listen = defaultListen
	}
	if cfg.ListenKey == "" {
		cfg.ListenKey = "listen"
	}
	if cfg.StoreKey == "" {
		cfg.StoreKey = "the directory of its store"
	}
	if cfg.SyncInterval == 0 {
		cfg.SyncInterval = defaultSync
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.ListenKey, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is not a port", cfg.ListenKey, port)
	}
	if cfg.StoreDir == "" {
		return nil, errors.New("embedded server: no directory to keep its messages in")
	}
	s := &Server{cfg: cfg, log: log, host: host, port: int(n), ready: make(chan struct{}), limit: cfg.MaxBytes}
	if s.port == 0 {
		s.port = server.RANDOM_PORT
	}
	return s, nil
}

// Run serves until ctx ends, and returns nil once the store is closed. If the disk was full and has room again, also
// since before the start, Run closes all connections and serves again, with a try every second. The error says why
// there is no server; a port that is in use is named together with the configuration key, and so is a directory that
// cannot be written. Run is called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.probe(ctx); err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return fmt.Errorf("embedded server: keep messages in %s: %w; set %s to a directory that can be written",
			s.cfg.StoreDir, err, s.cfg.StoreKey)
	}
	if err := s.serve(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	for pause.For(ctx, lookInterval) == nil {
		s.setErr(nil)
		s.log.Warn("the embedded NATS server could not store, and there is room now: it starts again", "storeDir",
			s.cfg.StoreDir)
		if err := s.serve(ctx); err != nil {
			s.log.Error("the embedded NATS server does not start again; the next try is in a second", "err", err)
		}
	}
	return nil
}

// serve runs a server until ctx ends, or until it has to be started again.
func (s *Server) serve(ctx context.Context) error {
	srv, err := server.NewServer(s.options())
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	logger := &logger{log: s.log, fatal: make(chan error, 1)}
	srv.SetLoggerV2(logger, false, false, false)
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	srv.Start()
	if err := s.await(ctx, srv, logger.fatal); err != nil || ctx.Err() != nil {
		return err
	}
	s.serving(srv)
	defer s.serving(nil)
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-logger.fatal:
			return fmt.Errorf("embedded server: %w", err)
		case <-look.C:
			err := stores(srv)
			s.setErr(err)
			if err != nil && s.hasRoom() || s.outgrown(srv) {
				return nil
			}
		}
	}
}

// serving says which server takes connections.
func (s *Server) serving(srv *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv = srv
	if srv == nil {
		return
	}
	if at, ok := srv.Addr().(*net.TCPAddr); ok {
		s.port = at.Port // the next one has the same
	}
	// The next one must not take three quarters of what is free then: that may be less than there is already.
	if limits := srv.JetStreamConfig(); limits != nil {
		s.limit = max(s.limit, limits.MaxStore)
	}
	s.once.Do(func() { close(s.ready) })
}

// stores returns why a server stores no messages, or nil. One that could not write to a stream once stores nothing in
// it until it is started again, whatever room there is. It does not answer who publishes to that.
func stores(srv *server.Server) error {
	if text := srv.Healthz(nil).Error; strings.Contains(text, "write error:") {
		return fmt.Errorf("the embedded server cannot write: %s", text)
	}
	return nil
}

func (s *Server) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Err returns why the server stores no messages, or nil. It is at most a second old.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// outgrown reports whether a server refuses messages because of a limit that is less than three quarters of what is
// free or its own now: it was started when others had filled the disk.
func (s *Server) outgrown(srv *server.Server) bool {
	limits := srv.JetStreamConfig()
	usage, err := srv.Jsz(nil)
	if s.cfg.MaxBytes != 0 || limits == nil || err != nil {
		return false
	}
	used := int64(min(usage.Store, math.MaxInt64)) //nolint:gosec // it is no more than that
	left, ok := free(s.cfg.StoreDir)
	if now := (left + used) / 4 * 3; ok && used+room > limits.MaxStore && now >= max(limits.MaxStore, used)+room {
		s.limit = now
		return true
	}
	return false
}

// hasRoom reports whether as much as a few large messages can be written.
func (s *Server) hasRoom() bool {
	f, err := os.Create(filepath.Join(s.cfg.StoreDir, "room"))
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, room))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())) == nil
}

// probe finds out whether the address can be had, because the server itself only logs that it cannot.
func (s *Server) probe(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen)
	switch {
	case err == nil:
		return l.Close()
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("embedded server: %s is in use by another program: stop it, or set %s to another address, "+
			"in all embedded pipelines: %w",
			s.cfg.Listen, s.cfg.ListenKey, err)
	default:
		return fmt.Errorf("embedded server: listen on %s (%s): %w", s.cfg.Listen, s.cfg.ListenKey, err)
	}
}

// writable makes the directory of the store, and finds out whether a file can be made there: the server itself has no
// cause that could be asked for.
func (s *Server) writable() error {
	if err := os.MkdirAll(s.cfg.StoreDir, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.cfg.StoreDir, "writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (s *Server) options() *server.Options {
	return &server.Options{
		ServerName:        "kube-eventbridge",
		Host:              s.host,
		Port:              s.port,
		NoSigs:            true,
		JetStream:         true,
		StoreDir:          s.cfg.StoreDir,
		JetStreamMaxStore: s.limit,
		SyncInterval:      s.cfg.SyncInterval,
	}
}

// await returns nil when clients can connect, or ctx ended.
func (s *Server) await(ctx context.Context, srv *server.Server, fatal <-chan error) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil
		case err := <-fatal:
			return fmt.Errorf("embedded server with its store in %s: %w", s.cfg.StoreDir, err)
		default:
		}
		if srv.ReadyForConnections(50 * time.Millisecond) {
			return nil
		}
	}
	return fmt.Errorf("embedded server: not ready after %v", startTimeout)
}

// Ready is closed when clients can connect.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// ClientURL returns where clients connect to; empty while there is no server.
func (s *Server) ClientURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return ""
	}
	return s.srv.ClientURL()
}

// InProcessConn connects without a network, as nats.go's InProcessServer option wants it.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	srv := s.srv
	s.mu.Unlock()
	if srv == nil {
		return nil, errors.New("the embedded server is not running")
	}
	return srv.InProcessConn()
}

// logger hands warnings on. What the server calls fatal it does not survive.
type logger struct {
	log   *slog.Logger
	fatal chan error
}

// Noticef and the other methods implement [server.Logger].
func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("embedded NATS server", "text", fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) { l.Warnf(format, v...) }
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

// The server warns twice if its index of a stream is older than the stream, as after a crash of the process. It
// rebuilds the index from the messages and loses none. So the bridge words the first warning differently. It drops the
// second one, which always follows a cause of its own.
var (
	outdated = regexp.MustCompile(`^Filestore \[(.*)\] Stream state outdated, .*will rebuild$`)
	followed = regexp.MustCompile(`^Filestore \[.*\] Recovering stream state from index errored: prior state file$`)
)

// Warnf implements [server.Logger].
func (l *logger) Warnf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if stream := outdated.FindStringSubmatch(text); stream != nil {
		l.log.Info("the embedded NATS server has not been stopped in order: it reads all messages once to find where each is",
			"stream", stream[1])
		return
	}
	if followed.MatchString(text) {
		l.log.Debug("embedded NATS server", "text", text)
		return
	}
	l.log.Warn("embedded NATS server", "text", text)
}
