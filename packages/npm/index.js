'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');

/** The program: $SETPOINT_BINARY, or the one of this package. */
function binary() {
  return process.env.SETPOINT_BINARY || path.join(__dirname, 'bin', 'setpoint');
}

/** Runs the program to its end. Rejects with its error output if it fails. */
function run(program, words) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.on('data', (text) => (errors += text));
    child.on('error', reject);
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(errors.trim()))));
  });
}

/** Starts a cluster and waits until it is ready. */
async function startCluster(options = {}) {
  const program = options.binary || binary();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'setpoint-'));
  const kubeconfig = path.join(folder, 'kubeconfig');
  const own = ['up', '--port', '0', '--until-stdin-closes', '--kubeconfig', kubeconfig];
  // The pipe on its input ends the cluster if this process is killed.
  const child = spawn(program, [...own, ...(options.args || [])], { stdio: 'pipe' });
  let errors = '';
  child.stderr.on('data', (text) => (errors += text));
  child.stdin.on('error', () => {});
  const ended = new Promise((resolve) => {
    child.on('close', resolve);
    child.on('error', (error) => {
      errors += error.message;
      resolve();
    });
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    fs.rmSync(folder, { recursive: true, force: true });
  };
  const lines = readline.createInterface({ input: child.stdout });
  const timeout = options.timeout || 30_000;
  let timer;
  const line = await Promise.race([
    new Promise((resolve) => lines.once('line', resolve)),
    ended.then(() => ''),
    new Promise((resolve) => (timer = setTimeout(resolve, timeout, ''))),
  ]);
  clearTimeout(timer);
  if (!line.startsWith('ready ')) {
    await stop();
    throw new Error(errors.trim() || `no cluster within ${timeout} ms`);
  }
  return {
    server: line.split(' ')[1],
    kubeconfig,
    load: (folder) => run(program, ['load', folder, '--kubeconfig', kubeconfig]),
    stop,
  };
}

module.exports = { startCluster, binary };
