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
        'if (checkpoint && checkpoint.seq >= start.seq && !isCheckpointFound) {',
        'if (checkpoint && checkpoint.seq >= start.seq && isCheckpointFound) {',
      ],
    },
  },
  {
    file: 'src/payments/audit/verify-activity.ts',
    tests: [['test/payment/audit-tampering.test.ts', 'the check detects that']],
    made: {
      'rows beyond the head are not looked for': [
        'if (trusted && !isFull()) {',
        'if (trusted && isFull()) {',
      ],
    },
  },
  {
    file: 'src/payments/audit/delete-old-entries.ts',
    tests: [['test/payment/audit-retention.test.ts', 'nothing is deleted']],
    made: {
      'an entry that was changed is deleted': [
        "const wrong = isNext ? whatIsWrong(auditKey, head, one, previous) : 'an entry is missing'",
        'const wrong = isNext ? undefined : String(previous.seq)',
      ],
    },
  },
  {
    file: 'src/payments/audit/seal-activity.ts',
    tests: [['test/payment/audit-chain.test.ts', 'neither listed nor sealed']],
    made: {
      'a row that the service did not write is sealed': [
        'if (!isSigned(auditKey, entry)) {',
        'if (entry.mac === undefined) {',
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
