/** Options of a cluster. */
export interface ClusterOptions {
  /** Further flags of `setpoint up`. */
  args?: string[];
  /** The program. Default: `$SETPOINT_BINARY`, or the one of this package. */
  binary?: string;
  /** Time that the start may take, in milliseconds. Default: 30000. */
  timeout?: number;
}

/** A cluster in a process of its own, in memory. It ends with this process. */
export interface Cluster {
  /** The URL of the API server. */
  readonly server: string;
  /** The path of the kubeconfig. */
  readonly kubeconfig: string;
  /** Applies the YAML and JSON files of a folder: namespaces and definitions first. */
  load(folder: string): Promise<void>;
  /** Stops the cluster. Its objects are gone. */
  stop(): Promise<void>;
}

/** Starts a cluster and waits until it is ready. Rejects with the program's error output. */
export function startCluster(options?: ClusterOptions): Promise<Cluster>;

/** Returns the program. */
export function binary(): string;
