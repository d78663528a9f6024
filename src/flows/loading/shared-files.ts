import { resolve } from 'node:path'
import type { Reason } from '../../texts/reason.ts'
import type { Path } from '../definition/findings.ts'
import type { LoadedFlow } from './read-flow.ts'

/** A conflict of two flows over their files, at a position in the first flow's file. */
type SharedFile = { flow: LoadedFlow; path: Path; why: Reason }

/** `place` is the path or the pattern of the files, with the server that has them. */
type Use = { flow: LoadedFlow; path: Path; place: string; takes: boolean }

/** Paths that two flows write, or from which one takes the files before the other has read them. */
export function sharedFiles(flows: readonly LoadedFlow[]): SharedFile[] {
  return [
    ...conflicts(flows.flatMap(writesOf), (one, other) => ({
      why: { code: 'FILE_WRITTEN_TWICE', data: { flow: nameOf(other) } },
      ...one,
    })),
    ...conflicts(flows.flatMap(readsOf), (one, other) => ({
      why: { code: 'FILES_TAKEN_TWICE', data: { flow: nameOf(other) } },
      ...one,
    })),
  ]
}

function nameOf({ flow: { flow, file } }: Use): string {
  return `${flow.name} (${file})`
}

function conflicts(
  uses: readonly Use[],
  toSharedFile: (one: Use, other: Use) => SharedFile,
): SharedFile[] {
  return uses.flatMap((one) => {
    const other = uses.find(
      (each) => each.flow !== one.flow && (each.takes || one.takes) && each.place === one.place,
    )
    return other ? [toSharedFile(one, other)] : []
  })
}

function writesOf(flow: LoadedFlow): Use[] {
  return flow.flow.destinations.flatMap((destination, index) => {
    if (destination.type !== 'file') return []
    const place = resolve(destination.path)
    return [{ flow, path: ['destinations', index, 'path'], place, takes: true }]
  })
}

function readsOf(flow: LoadedFlow): Use[] {
  const { source } = flow.flow
  if (source.type !== 'file' && source.type !== 'sftp') return []
  const place =
    source.type === 'file'
      ? resolve(source.path)
      : `${URL.parse(source.url.reveal())?.host ?? source.url.template} ${source.path}`
  const takes = source.after !== 'keep'
  return [{ flow, path: ['source', 'path'], place, takes }]
}
