import { readdirSync, readFileSync } from 'node:fs'
import { Client } from 'pg'
import { processorMs } from '../bench-service.ts'

export type ServerCost = {
  /** Processor time of the whole server up to now, in milliseconds; NaN when it runs on another machine. */
  cpuMs(): number
  /** Bytes of log written up to now. */
  walBytes(): Promise<number>
  /** As after five quiet minutes: the next change of each page writes the whole page. */
  checkpoint(): Promise<void>
  end(): Promise<void>
}

/** What a server of this machine costs. It must do no other work meanwhile. */
export async function openServerCost(url: string): Promise<ServerCost> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const server = parentOf(rows[0].pid)
  return {
    cpuMs: () => (server === undefined ? Number.NaN : endedCpuMs(server) + childrenCpuMs(server)),
    async walBytes() {
      const found = await client.query(
        `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes`,
      )
      return found.rows[0].bytes
    },
    checkpoint: async () => void (await client.query('checkpoint')),
    end: () => client.end(),
  }
}

/** The fields of proc_pid_stat(5) from the third on. */
const statOf = (pid: number | string): string[] =>
  readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []

function parentOf(pid: number): number | undefined {
  try {
    return Number(statOf(pid)[1])
  } catch {
    return undefined
  }
}

/** Of its children that ended, in hundredths of a second as processorMs. */
function endedCpuMs(pid: number): number {
  const fields = statOf(pid)
  return processorMs([pid]) + (Number(fields[13]) + Number(fields[14])) * 10
}

function childrenCpuMs(parent: number): number {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => {
      try {
        return Number(statOf(pid)[1]) === parent ? sum + processorMs([Number(pid)]) : sum
      } catch {
        // It ended since it was listed.
        return sum
      }
    }, 0)
}
