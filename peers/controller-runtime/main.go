// controller-runtime's side of `cargo xtask bench runtime`: the same work, the same lines, the same steps as
// tools/bench-client.
package main

import (
	"bufio"
	"flag"
	"log"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: controller-runtime latency|operator ...")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	server := flags.String("server", "", "the replay server")
	kubeconfig := flags.String("config", "", "a kubeconfig of the real server")
	form := flags.String("form", "", "the content type that is asked for; empty for its default")
	strip := flags.Bool("strip", false, "drop managedFields before an object is stored")
	objects := flags.Int("objects", 0, "how many objects there are")
	workers := flags.Int("workers", 1, "how many objects are worked on at a time")
	if err := flags.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	ctrl.SetLogger(logr.Discard())
	switch os.Args[1] {
	case "latency":
		latency(*server, *form, *objects, *strip)
	case "operator":
		operator(*kubeconfig, *objects, *workers)
	default:
		log.Fatalf("unknown case %q", os.Args[1])
	}
}

var input = bufio.NewReader(os.Stdin)

// Waits until the benchmark says to go on.
func waitForGo() {
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

// Seconds that all threads of this process have been on a processor.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
