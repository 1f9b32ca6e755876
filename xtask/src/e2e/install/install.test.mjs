// The npm package as its users see it.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { startCluster } from 'setpoint';

test('a cluster is used and stopped', async () => {
  const cluster = await startCluster();
  try {
    const folder = mkdtempSync(join(tmpdir(), 'manifests-'));
    writeFileSync(join(folder, 'a.yaml'), 'apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n');
    await cluster.load(folder);
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfig);
    const core = config.makeApiClient(CoreV1Api);
    const namespaces = (await core.listNamespace()).items.map((item) => item.metadata.name);
    assert.ok(namespaces.includes('team') && namespaces.includes('default'), namespaces.join());
  } finally {
    await cluster.stop();
  }
  assert.ok(!existsSync(cluster.kubeconfig));
});

test('a cluster that does not start says why', async () => {
  await assert.rejects(startCluster({ args: ['--only', 'nope'] }), /no controller is called "nope"/);
  await assert.rejects(startCluster({ binary: '/nowhere/setpoint' }), /ENOENT/);
});
