// Package setpointtest starts a Kubernetes cluster for a test: the program setpoint, in memory, ready in milliseconds.
//
// Environment takes the place of controller-runtime's envtest.Environment in suites that use the fields below. For the
// others run `setpoint assets` and keep envtest.
package setpointtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// defaultTimeout is envtest's.
const defaultTimeout = 20 * time.Second

// Environment is a cluster in a process of its own. It ends with Stop, and also if the test's process is killed.
type Environment struct {
	// Config reaches the cluster as an administrator. Start sets it.
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig. Start sets it.
	Kubeconfig string
	// CRDDirectoryPaths names folders or files whose objects Start applies: namespaces and definitions first.
	CRDDirectoryPaths []string
	// ErrorIfCRDPathMissing lets Start fail if one of them does not exist. Otherwise it is skipped.
	ErrorIfCRDPathMissing bool
	// ControlPlaneStartTimeout bounds the start. Default: 20 seconds.
	ControlPlaneStartTimeout time.Duration
	// ControlPlaneStopTimeout bounds the stop; afterwards the process is killed. Default: 20 seconds.
	ControlPlaneStopTimeout time.Duration
	// Binary is the program. Default: $SETPOINT_BINARY, or setpoint on the path.
	Binary string
	// Args are further flags of `setpoint up`, such as --no-controllers, with which it has what envtest has.
	Args []string

	folder  string
	command *exec.Cmd
	input   io.Closer
	ended   chan error
}

// Start starts the cluster, waits until it is ready, and applies CRDDirectoryPaths.
func (e *Environment) Start() (*rest.Config, error) {
	if e.command != nil {
		return nil, errors.New("the environment has been started already")
	}
	if err := e.start(); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e.Config, nil
}

func (e *Environment) start() error {
	if e.Binary == "" {
		e.Binary = os.Getenv("SETPOINT_BINARY")
	}
	if e.Binary == "" {
		e.Binary = "setpoint"
	}
	folder, err := os.MkdirTemp("", "setpoint-")
	if err != nil {
		return err
	}
	e.folder = folder
	e.Kubeconfig = filepath.Join(folder, "kubeconfig")
	flags := []string{"up", "--port", "0", "--until-stdin-closes", "--kubeconfig", e.Kubeconfig}
	command := exec.Command(e.Binary, append(flags, e.Args...)...)
	var said bytes.Buffer
	command.Stderr = &said
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", e.Binary, err)
	}
	e.command, e.input, e.ended = command, input, make(chan error, 1)
	first := make(chan string, 1)
	go func() {
		reader := bufio.NewReader(output)
		line, _ := reader.ReadString('\n')
		first <- line
		// The cluster must never wait for a reader.
		_, _ = io.Copy(io.Discard, reader)
		e.ended <- command.Wait()
	}()
	timeout := orDefault(e.ControlPlaneStartTimeout)
	select {
	case line := <-first:
		if !strings.HasPrefix(line, "ready ") {
			// Once it has ended nobody writes to the buffer any more.
			err := <-e.ended
			e.ended <- err
			return fmt.Errorf("setpoint ended: %s", strings.TrimSpace(said.String()))
		}
	case <-time.After(timeout):
		return fmt.Errorf("setpoint was not ready within %s", timeout)
	}
	for _, path := range e.CRDDirectoryPaths {
		if err := e.load(path); err != nil {
			return err
		}
	}
	e.Config, err = clientcmd.BuildConfigFromFlags("", e.Kubeconfig)
	return err
}

func (e *Environment) load(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && !e.ErrorIfCRDPathMissing {
		return nil
	}
	command := exec.Command(e.Binary, "load", path, "--kubeconfig", e.Kubeconfig)
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s", strings.TrimSpace(said.String()))
	}
	return nil
}

// Stop stops the cluster. Its objects are gone. A stopped environment can be started again.
func (e *Environment) Stop() error {
	var err error
	if e.command != nil {
		_ = e.command.Process.Signal(syscall.SIGTERM)
		timeout := orDefault(e.ControlPlaneStopTimeout)
		select {
		case err = <-e.ended:
		case <-time.After(timeout):
			_ = e.command.Process.Kill()
			<-e.ended
			err = fmt.Errorf("setpoint did not stop within %s and was killed", timeout)
		}
		_ = e.input.Close()
		e.command = nil
	}
	if e.folder != "" {
		err = errors.Join(err, os.RemoveAll(e.folder))
		e.folder = ""
	}
	return err
}

func orDefault(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return defaultTimeout
	}
	return timeout
}
