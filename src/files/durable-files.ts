import { open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Writes a file that only its owner can read, unless `mode` says otherwise. It is complete and on the disk, or it does not exist. */
export async function writeWhole(path: string, bytes: Uint8Array, mode = 0o600): Promise<void> {
  const unfinished = `${path}.unfinished-${process.pid}`
  try {
    const handle = await open(unfinished, 'w', mode)
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(unfinished, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}

/**
 * Flushes the names in a folder to the disk. Without it a power cut may lose names although the contents are safe.
 * Windows needs no such call.
 */
export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  await sync(folder, 'r')
}

/** Flushes the folder and everything in it to the disk. */
export async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await syncTree(path)
    else if (entry.isFile()) await sync(path, 'r+')
  }
  await syncFolder(folder)
}

async function sync(path: string, flags: 'r' | 'r+'): Promise<void> {
  const handle = await open(path, flags)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
