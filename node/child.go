package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ReadyPrefix begins the line that each process prints when it can serve; the address follows.
const ReadyPrefix = "kvferry is ready: "

// ParentFD names the environment variable that tells a child which descriptor ends when its
// parent does.
const ParentFD = "KVFERRY_PARENT_FD"

const (
	// startTimeout is how long a child may take to be ready.
	startTimeout = 60 * time.Second
	// restartDelay is the pause before a child that died is started again; it doubles up to
	// restartMost while the child does not become ready.
	restartDelay = 200 * time.Millisecond
	restartMost  = 10 * time.Second
)

// Child is a kvferry process that is started again, under the address that it had, whenever
// it dies. It ends when its parent does, however that ends.
type Child struct {
	cfg     ChildConfig
	alive   *os.File // this process holds the writing end; the child waits for its end
	stop    context.CancelFunc
	ctx     context.Context
	watched chan struct{}

	mu   sync.Mutex
	addr string
	proc *os.Process
}

// ChildConfig is how a child is started.
type ChildConfig struct {
	// Name is what it is called in messages, as prefill-0.
	Name string
	// Listen is its first address; port 0 takes one, which it keeps.
	Listen string
	// Env is what its environment has beside this process's own, as NAME=value; it goes before that.
	Env []string
	// Args are the program's arguments for an address.
	Args func(listen string) []string
	// Stderr gets its log, and Say a line when it died or came back.
	Stderr io.Writer
	Say    func(line string)
}

// StartChild starts a child and waits until it is ready, or kills it if ctx ends before.
func StartChild(ctx context.Context, cfg ChildConfig) (*Child, error) {
	c := &Child{cfg: cfg, addr: cfg.Listen, watched: make(chan struct{})}
	died, err := c.launch(ctx)
	if err != nil {
		return nil, err
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	go c.watch(died)
	return c, nil
}

// Addr is the child's HTTP address.
func (c *Child) Addr() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addr
}

// Stop tells the child to drain and waits for its end. When ctx ends it is killed.
func (c *Child) Stop(ctx context.Context) {
	c.stop()
	c.signal(syscall.SIGTERM)
	kill := context.AfterFunc(ctx, func() { c.signal(syscall.SIGKILL) })
	defer kill()
	<-c.watched
}

func (c *Child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.proc.Signal(s) // it may have ended
}

// watch starts the child again whenever it dies, until Stop.
func (c *Child) watch(died <-chan error) {
	defer close(c.watched)
	for {
		err := <-died
		if c.ctx.Err() != nil {
			return
		}
		c.cfg.Say(fmt.Sprintf("%s died (%v); starting it again", c.cfg.Name, err))
		if died = c.relaunch(); died == nil {
			return
		}
		c.cfg.Say(fmt.Sprintf("%s is back: http://%s", c.cfg.Name, c.Addr()))
		if c.ctx.Err() != nil {
			c.signal(syscall.SIGTERM) // Stop came while it was starting
		}
	}
}

// relaunch tries until the child is ready, or gives nil after Stop.
func (c *Child) relaunch() <-chan error {
	for delay := restartDelay; ; delay = min(2*delay, restartMost) {
		select {
		case <-c.ctx.Done():
			return nil
		case <-time.After(delay):
		}
		died, err := c.launch(c.ctx)
		switch {
		case err == nil:
			return died
		case c.ctx.Err() != nil:
			return nil
		}
		c.cfg.Say(fmt.Sprintf("%v; trying again", err))
	}
}

// launch starts the process and waits for its ready line, at most until ctx ends. What it
// gives tells of the process's end.
func (c *Child) launch(ctx context.Context) (<-chan error, error) {
	cmd, out, err := c.command()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.cfg.Name, err)
	}
	c.mu.Lock()
	c.proc = cmd.Process
	c.mu.Unlock()
	ready, died := make(chan string, 1), make(chan error, 1)
	go func() {
		readReady(out, ready)
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		died <- err
	}()
	late := time.NewTimer(startTimeout)
	defer late.Stop()
	select {
	case addr := <-ready:
		c.mu.Lock()
		c.addr = addr
		c.mu.Unlock()
		return died, nil
	case err := <-died:
		return nil, fmt.Errorf("%s ended before it was ready: %w", c.cfg.Name, err)
	case <-late.C:
		err = fmt.Errorf("%s was not ready within %s", c.cfg.Name, startTimeout)
	case <-ctx.Done():
		err = fmt.Errorf("%s: %w", c.cfg.Name, ctx.Err())
	}
	_ = cmd.Process.Kill() // what is not ready yet has nothing to drain
	<-died
	return nil, err
}

// command starts this program as the child. The child inherits the reading end of a pipe
// whose other end closes with this process.
func (c *Child) command() (*exec.Cmd, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(self, c.cfg.Args(c.Addr())...)
	cmd.Stderr = c.cfg.Stderr
	cmd.Env = append(append(os.Environ(), c.cfg.Env...), ParentFD+"=3")
	cmd.ExtraFiles = []*os.File{theirs}
	// A Ctrl-C at the terminal is for the parent alone, which drains the children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	if c.alive != nil {
		c.alive.Close()
	}
	c.alive = ours
	return cmd, out, nil
}

// readReady looks for the ready line and then reads on, so that the child never blocks.
func readReady(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), ReadyPrefix); ok {
			select {
			case ready <- strings.TrimPrefix(url, "http://"):
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, out)
}
