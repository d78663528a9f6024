import { WebhookSignatureValidator } from 'mercadopago'
import { describe, expect, it } from 'vitest'
import { signatureManifest, signManifest } from '../../sandbox/webhook-signing.ts'

const secret = 'sandbox-webhook-secret-0001'
const requestId = '7c1f0b52-3a44-4f0e-9d2a-5b6c7d8e9f01'
const upper = 'ORDTST01K8ZQ4M7N2P5R6S7T8V9W0X1Y'
const lower = upper.toLowerCase()

const vectors: [string | null, string | null, string, string][] = [
  [
    lower,
    requestId,
    '1790000000000',
    '5daba6bd40e5d4e2248cac87db274e86c6a0a00939895f974e94ec186d84d892',
  ],
  [
    upper,
    requestId,
    '1790000000000',
    '57d16c937886bafde2d66df35ebd5b0e7290ded16f9d8fcafb83cb7fe1dd74f6',
  ],
  [
    lower,
    null,
    '1790000000000',
    '23e92123c6484a8eacac1722b42b1da66b773e55f77b5fc27b97da681d36d1a2',
  ],
  [
    null,
    requestId,
    '1790000000000',
    '3a71bba6e1ea97cb9d0660c1e5fc201568aa6fd18ca713d33d19f772e6c7f869',
  ],
  [null, null, '1790000000000', '148e433d0a3ca4de0b58d9f1636936513b1df226f2f156e21a06a34858c7f529'],
  [
    '123456789',
    requestId,
    '1790000000',
    'ec631512d13e718a44e088f6476bfa526e8ade22350641d9c1ab3bc3b3b1bf11',
  ],
]

describe('webhook signature', () => {
  it.each(vectors)(
    'signs id %s, request %s, ts %s as recorded',
    (dataId, request, ts, expected) => {
      expect(signManifest(secret, signatureManifest(dataId, request, ts))).toBe(expected)
    },
  )

  it.each(vectors)(
    'is accepted by the official validator: id %s, request %s, ts %s',
    (dataId, request, ts) => {
      const v1 = signManifest(secret, signatureManifest(dataId, request, ts))
      const options = { xSignature: `ts=${ts},v1=${v1}`, xRequestId: request, dataId, secret }
      expect(() => WebhookSignatureValidator.validate(options)).not.toThrow()
      const wrong = { ...options, secret: 'another' }
      expect(() => WebhookSignatureValidator.validate(wrong)).toThrow('SignatureMismatch')
    },
  )
})
