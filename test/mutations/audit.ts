import type { Mistakes } from './mistakes.ts'

/** The audit log, and what a start must not forget. */
export const audit: readonly Mistakes[] = [
  {
    file: 'src/payments/audit/seal-activity.ts',
    tests: [['test/payment/audit-chain.test.ts', 'the sealer runs every second']],
    made: {
      'no checkpoint is written to the log': [
        "else if (head.seq > 0) log.info({ seq: head.seq, hash: head.hash }, 'activity log checkpoint')",
        'else if (head.seq > 0) return',
      ],
      'checkpoints are written once only': [
        'if (now - lastCheckpoint < checkpointMs) return',
        'if (lastCheckpoint > 0) return',
      ],
    },
  },
  {
    file: 'src/payments/audit/verify-activity.ts',
    tests: [['test/payment/audit-tampering.test.ts', 'a log that was set back as a whole']],
    made: {
      'a checkpoint that the log does not hold is passed over': [
        'if (checkpoint && !isCheckpointFound) {',
        'if (checkpoint && isCheckpointFound) {',
      ],
    },
  },
  {
    file: 'src/payments/audit/verify-activity.ts',
    tests: [['test/payment/audit-tampering.test.ts', 'the check detects that']],
    made: {
      'rows beyond the head are not looked for': [
        'if (isTrusted && !isFull()) {',
        'if (isTrusted && isFull()) {',
      ],
    },
  },
  {
    file: 'src/payments/audit/archive-activity.ts',
    tests: [['test/payment/audit-archive.test.ts', 'not archived']],
    made: {
      'an entry that was changed is archived': [
        'if (!isSignedWith(key, entry) || !isSealedWith(key, entry, seal)) return undefined',
        '',
      ],
    },
  },
  {
    file: 'src/app/run-service.ts',
    tests: [['test/process/main.test.ts', 'T46']],
    made: {
      'a database that served the real provider starts in the sandbox': [
        'if (remembered !== config.provider) {',
        "if (remembered === '') {",
      ],
    },
  },
]
