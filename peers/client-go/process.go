package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var input = bufio.NewReader(os.Stdin)

// Waits until the benchmark says to go on.
func waitForGo() {
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

type stopwatch struct {
	begun time.Time
	cpu   float64
}

func start() stopwatch { return stopwatch{time.Now(), cpu()} }

func (s stopwatch) read() string {
	return fmt.Sprintf("seconds=%.6f cpu=%.2f", time.Since(s.begun).Seconds(), cpu()-s.cpu)
}

// Seconds that all threads of this process have been on a processor.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// Bytes of a line of /proc/self/status.
func memory(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, name) {
			kibibytes, err := strconv.ParseInt(strings.Fields(line)[1], 10, 64)
			if err != nil {
				log.Fatal(err)
			}
			return kibibytes * 1024
		}
	}
	return 0
}

// Collects what is garbage and gives it back to the system: the least that the cache can take. Tells the memory then,
// and at most so far, above what it was before.
func settle(watch stopwatch, before int64) {
	runtime.GC()
	debug.FreeOSMemory()
	time.Sleep(time.Second)
	fmt.Printf("settled %s rss=%d peak=%d\n", watch.read(), memory("VmRSS")-before, memory("VmHWM")-before)
}

func percentiles(name string, times []time.Duration) {
	slices.Sort(times)
	at := func(share float64) int64 { return times[int(float64(len(times)-1)*share)].Nanoseconds() }
	fmt.Printf("%s p50=%d p99=%d\n", name, at(0.5), at(0.99))
}
