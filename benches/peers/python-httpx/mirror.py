"""The shortest honest mirror in Python: httpx, json, base64.

python mirror.py BASE [ROWS]     reads the lists to their ends; with ROWS, so many rows of the stream. Says `ready ROWS` and waits for its stdin's end.
"""

import base64
import json
import sys

import httpx

SERVICE = "aiserver.v1.GrokBotService"

# By Bot: its entries by id, and their ids by place.
records = {}


def keep(agent_id, entries):
    by_id, order = records.setdefault(agent_id, ({}, []))
    for entry in entries:
        body = json.loads(base64.b64decode(entry["body"]))
        text = body.get("content") if body["kind"] == "message" else body.get("message", {}).get("content")
        if text is None:
            continue
        seq, number = int(entry["seq"]), int(entry["updatedSeq"])
        known = by_id.get(body["id"])
        if known and known["number"] >= number:
            continue
        if not known:
            order.append(body["id"])
        by_id[body["id"]] = {
            "id": body["id"], "seq": seq, "number": number, "role": body.get("role"), "at": body["timestampMs"], "text": text,
        }


def unary(client, method, request):
    return client.post(f"{SERVICE}/{method}", json=request).raise_for_status().json()


def frames(answer):
    """The payloads of a stream."""
    rest = bytearray()
    for chunk in answer.iter_bytes():
        rest += chunk
        at = 0
        while len(rest) - at >= 5:
            length = int.from_bytes(rest[at + 1 : at + 5], "big")
            if len(rest) - at - 5 < length:
                break
            yield json.loads(rest[at + 5 : at + 5 + length])
            at += 5 + length
        del rest[:at]


def read_lists(client):
    read = 0
    for agent in unary(client, "ListGrokBotAgents", {})["agents"]:
        request = {"agentId": agent["agentId"], "limit": 500}
        while True:
            entries = unary(client, "ListGrokBotTranscriptEntries", request).get("entries", [])
            keep(agent["agentId"], entries)
            read += len(entries)
            if len(entries) < 500:
                break
            request["beforeSeq"] = entries[-1]["seq"]
        by_id, order = records[agent["agentId"]]
        order.sort(key=lambda entry: by_id[entry]["seq"])
    return read


def read_stream(client, wanted):
    read = 0
    payload = json.dumps({"cursors": [], "includeUnlistedAgents": True, "inlineBodyMaxBytes": 262144}).encode()
    request = b"\0" + len(payload).to_bytes(4, "big") + payload
    headers = {"content-type": "application/connect+json"}
    with client.stream("POST", f"{SERVICE}/WatchGrokBotTranscripts", content=request, headers=headers) as answer:
        for frame in frames(answer):
            if rows := frame.get("rows"):
                keep(rows["agentId"], rows["entries"])
                read += len(rows["entries"])
                if read >= wanted:
                    break
    return read


# The environment's proxy is nothing for loopback.
with httpx.Client(base_url=sys.argv[1] + "/", timeout=60, trust_env=False) as http:
    print(f"ready {read_stream(http, int(sys.argv[2])) if len(sys.argv) > 2 else read_lists(http)}", flush=True)
sys.stdin.read()
